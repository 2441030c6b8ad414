"""Figures: one module for each kind."""
