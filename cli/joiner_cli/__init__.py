"""The `joiner` command."""
