"""Lambda: run deployed functions in sandboxes, and keep the settings that moto drops."""
