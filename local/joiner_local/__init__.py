"""The whole of AWS and Kubernetes on one machine, as far as Joiner needs it."""
