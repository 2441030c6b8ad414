"""Tables: our numbers beside the published ones, as CSV, pages and LaTeX."""
