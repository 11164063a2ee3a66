"""Write the data files that the `joiner` command is packaged with."""
