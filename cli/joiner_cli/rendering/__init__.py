"""Results as people and programs read them: aligned columns, JSON, YAML, and a page with a picture. Values in, text out."""
