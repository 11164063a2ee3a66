"""AWS Price List: an API that moto does not have."""
