"""Joiner: the library of its Lambda functions and its command, one package for each subject."""
