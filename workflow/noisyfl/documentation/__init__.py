"""The documentation that is generated from the declarations: tables, schemas, pages."""
