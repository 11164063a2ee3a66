"""Systems Manager: the public parameters that name recommended images."""
