"""The documents that each sweep may replace: the pods it saw on each node, the memory that nodes reported, and the free
addresses of subnets, which are read with the node classes."""

from collections.abc import Mapping
from typing import Any, Final

from joiner.adapters.replaced_documents import read_replaced_document
from joiner.adapters.store import Store
from joiner.catalogue.observed_memory import ObservedMemories, ObservedMemory
from joiner.disruption.disruption_history import SeenPods

POD_EVENTS: Final = "pod-events/latest.json.gz"


def put_pod_events(store: Store, seen: Mapping[str, SeenPods]) -> None:
    """Store the pods that a sweep saw on each node, by the key of the claim."""
    store.put(POD_EVENTS, {"nodes": {key: [one.digest, one.at] for key, one in seen.items()}})


def get_pod_events(store: Store) -> Mapping[str, SeenPods]:
    """Return the pods that the last sweep saw on each node, read again only when they changed.

    A document that is missing or cannot be read counts as empty; the next sweep replaces it.
    """
    return read_replaced_document(store, POD_EVENTS, _read_pod_events, {}, what="the pods of the last sweep")


def _read_pod_events(stored: Any) -> Mapping[str, SeenPods]:
    return {str(key): SeenPods(str(digest), int(at)) for key, (digest, at) in stored["nodes"].items()}


OBSERVED_MEMORY: Final = "observed-memory/latest.json.gz"


def put_observed_memory(store: Store, observed: ObservedMemories) -> None:
    """Store the memory that nodes reported, by instance type and id of the image."""
    types = {name: {image: [one.size, one.at] for image, one in of_type.items()} for name, of_type in observed.items()}
    store.put(OBSERVED_MEMORY, {"types": types})


def get_observed_memory(store: Store) -> ObservedMemories:
    """Return the stored memory of nodes, read again only when it changed.

    A document that is missing or cannot be read counts as empty; the next sweep replaces it.
    """
    return read_replaced_document(
        store, OBSERVED_MEMORY, _read_observed_memory, {}, what="the observed memory of nodes"
    )


def _read_observed_memory(stored: Any) -> ObservedMemories:
    return {
        str(name): {str(image): ObservedMemory(int(size), int(at)) for image, (size, at) in of_type.items()}
        for name, of_type in stored["types"].items()
    }


FREE_ADDRESSES: Final = "free-addresses/latest.json.gz"


def put_free_addresses(store: Store, digest: str) -> None:
    """Store the digest of the free addresses of all node classes."""
    store.put(FREE_ADDRESSES, {"digest": digest})


def get_free_addresses(store: Store) -> str:
    """Return the stored digest, read again only when it changed; empty if it is missing or cannot be read."""
    return read_replaced_document(
        store, FREE_ADDRESSES, lambda stored: str(stored["digest"]), "", what="the free addresses of subnets"
    )
