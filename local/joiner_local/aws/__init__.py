"""The local AWS: moto, with a package for each service that moto lacks or simplifies."""
