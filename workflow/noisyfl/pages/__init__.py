"""Pages of tables, claims and evidence: Markdown, HTML and LaTeX, made of what analysis found."""
