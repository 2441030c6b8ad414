"""The papers' claims, checked against numbers."""
