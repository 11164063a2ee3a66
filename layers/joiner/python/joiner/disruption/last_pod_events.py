"""Pod events: when a pod last came to a node, left it, or ended on it.

Source: Karpenter, core `pkg/controllers/nodeclaim/podevents`. Karpenter watches pods. Joiner compares the pods of each
node with those of the last sweep, so the time of an event is that of the sweep that finds it: up to a minute late, and
never early. A pod that comes and ends between two sweeps is no event. Pods of daemon sets and static pods do not count.
"""

import hashlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from joiner.cluster import Node, Pod
from joiner.disruption.disruption_history import SeenPods
from joiner.planning import Snapshot
from joiner.planning.model.pending_pods import nodes_of_claims


def digest_pods(pods: Iterable[Pod], node: Node) -> str:
    """Return the digest of the pods that run on `node`, or are to run on it.

    >>> node, pod = Node("a"), Pod("shop", "web-0", uid="1", node_name="a")
    >>> digest_pods([pod], node) == digest_pods([], node)
    False
    """
    running = sorted(
        pod.uid or pod.key
        for pod in pods
        if pod.node_name == node.name and not (pod.stays_with_node or pod.terminal or pod.deletion)
    )
    return hashlib.blake2b("\n".join(running).encode(), digest_size=8).hexdigest()


def digest_nodes(nodes: Mapping[str, Node], pods: Mapping[str, Iterable[Pod]]) -> Mapping[str, str]:
    """Return the digest of the pods of each node. `nodes` are by any key, which the result has as well; `pods` are by
    the name of the node."""
    return {key: digest_pods(pods.get(node.name, ()), node) for key, node in nodes.items()}


def digest_snapshot(snapshot: Snapshot) -> Mapping[str, str]:
    """Return the digest of the pods of each node, by the key of its claim."""
    pods: dict[str, list[Pod]] = {}
    for pod in snapshot.pods:
        if pod.node_name:
            pods.setdefault(pod.node_name, []).append(pod)
    return digest_nodes(nodes_of_claims(snapshot), pods)


def note_pod_events(seen: Mapping[str, SeenPods], digests: Mapping[str, str], now: int) -> Mapping[str, SeenPods]:
    """Return what is known after a sweep. The pods of a node that was not seen before are no event.

    >>> note_pod_events({"a": SeenPods("x"), "b": SeenPods("y", 5)}, {"a": "z", "b": "y", "c": "w"}, 9)
    {'a': SeenPods(digest='z', at=9), 'b': SeenPods(digest='y', at=5), 'c': SeenPods(digest='w', at=0)}
    """
    found = {}
    for key, digest in digests.items():
        before = seen.get(key, SeenPods(digest))
        found[key] = before if before.digest == digest else SeenPods(digest, now)
    return found


def find_pod_events(seen: Mapping[str, SeenPods], digests: Mapping[str, str], now: datetime) -> Mapping[str, datetime]:
    """Return the time of the last event of each node, if one was seen. Pods that differ from those of the last sweep
    are an event of `now`."""
    known = note_pod_events(seen, digests, int(now.timestamp()))
    return {key: datetime.fromtimestamp(one.at, UTC) for key, one in known.items() if one.at}
