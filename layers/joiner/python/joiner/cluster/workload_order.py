"""The order in which equal pods of several workloads are assigned to nodes.

Equal pods may take each other's places, so which of them a node gets is free. kube-scheduler's own default constraints
prefer to spread the pods of each workload over nodes and zones.
"""

from collections.abc import Sequence

from joiner.cluster.pods import Pod


def mix_workloads(pods: Sequence[Pod]) -> Sequence[Pod]:
    """Return the pods in an order in which every part has about the same share of each workload. The pods of one
    workload keep their order.

    >>> pods = [Pod("default", name, owner_name=name[0]) for name in ("a1", "a2", "a3", "a4", "b1", "b2")]
    >>> [pod.name for pod in mix_workloads(pods)]
    ['a1', 'b1', 'a2', 'a3', 'b2', 'a4']
    """
    if len({pod.owner_name for pod in pods}) < 2:
        return pods
    workloads: dict[tuple[str, str, str], list[Pod]] = {}
    for pod in pods:
        workloads.setdefault((pod.namespace, pod.owner_kind, pod.owner_name), []).append(pod)
    mixed = [
        ((position + 0.5) / len(mine), number, pod)
        for number, mine in enumerate(workloads.values())
        for position, pod in enumerate(mine)
    ]
    return [pod for _, _, pod in sorted(mixed, key=lambda one: one[:2])]
