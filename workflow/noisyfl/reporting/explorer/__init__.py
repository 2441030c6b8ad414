"""The explorer: one page in which a cell of a table is clicked, and says why it is what it is."""
