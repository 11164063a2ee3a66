"""Manifests from files into a world to plan for, read as the API server would read them.

documents   files, folders and stdin -> documents, each knowing where it stands
schemas     types, unknown fields, values out of range: what the API server's decoder and our CRDs refuse
rules       what the API server's validation refuses beyond that, as far as a plan depends on it
admission   what admission fills in: priorities, limit ranges, runtime classes, the default storage class
conditions  what a cluster itself says of its pools and node classes, in a dump of it
workloads   deployments, stateful sets and jobs -> their pods
world       all of it together -> a snapshot, or the problems that stand against it
"""

from joiner_cli.manifests.manifest_documents import ManifestDocument, UnreadableInput, read_documents
from joiner_cli.manifests.manifest_set import ManifestSet, read_manifests

__all__ = ["ManifestDocument", "ManifestSet", "UnreadableInput", "read_documents", "read_manifests"]
