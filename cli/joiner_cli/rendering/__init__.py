"""Renders results as text: aligned columns, and an HTML page. Pure functions from values to strings."""
