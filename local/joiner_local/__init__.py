"""AWS and Kubernetes on one machine, as far as Joiner needs them."""
