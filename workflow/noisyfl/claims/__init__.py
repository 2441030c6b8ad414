"""The papers' claims, held against numbers."""
