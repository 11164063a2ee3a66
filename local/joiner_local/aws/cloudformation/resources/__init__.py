"""The CloudFormation resource types that the local AWS supports, a module for each service.

`supported_types` lists them.
"""
