"""API Gateway HTTP APIs: moto stores them, and one HTTPS server on this machine answers for them."""
