"""The local AWS: moto, with what moto leaves out, one module a service."""
