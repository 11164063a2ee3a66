"""Reads manifests from files into a snapshot, with the API server's rules.

manifest_documents   files, folders and stdin -> documents, each with its place
manifest_kinds       which kinds a plan reads, which it ignores, and which do not exist
openapi_schemas      types, unknown fields and ranges: what the API server's decoder and the CRDs refuse
validation           what the API server's validation refuses beyond that, where a plan depends on it
admission_defaults   what admission plugins fill in: limit ranges, tolerations, the default storage class
readiness            warnings about pools and node classes whose status is not ready
written_values       what stands in the file in place of a value that YAML changes, for messages
missing_classes      what is assumed of a node class that is not among the valid manifests
invalid_objects      invalid objects as far as they could be read
workload_replicas    Deployments, StatefulSets and Jobs -> their missing pods
manifest_set         the snapshot of all valid objects, and the problems of the others
"""

from joiner_cli.manifests.manifest_documents import ManifestDocument, UnreadableInput, read_documents
from joiner_cli.manifests.manifest_set import ManifestSet, read_manifest_set
from joiner_cli.manifests.workload_replicas import PendingSpec

__all__ = ["ManifestDocument", "ManifestSet", "PendingSpec", "UnreadableInput", "read_documents", "read_manifest_set"]
