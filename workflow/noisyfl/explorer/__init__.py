"""The explorer: one page of tables in which a click on a cell shows how its value came about."""
