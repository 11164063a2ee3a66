"""A Kubernetes control plane on this machine: its programs, certificates, token authenticator and API client."""
