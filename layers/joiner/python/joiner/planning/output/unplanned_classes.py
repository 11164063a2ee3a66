"""Pod classes for which another plan of the same snapshot would change nothing."""

from joiner.planning.inputs.snapshot import Snapshot
from joiner.planning.plan import Plan


def find_unplaceable_classes(plan: Plan, snapshot: Snapshot) -> set[str]:
    """Return the keys of the classes that stay pending for reasons that do not pass by themselves."""
    class_of = {pod.key: pod.class_key for pod in snapshot.pods}
    waiting = {class_of[pending.pod] for pending in plan.pending}
    return waiting - {class_of[pending.pod] for pending in plan.pending if any(one.passing for one in pending.reasons)}


def find_moving_classes(plan: Plan, snapshot: Snapshot) -> set[str]:
    """Return the keys of the classes whose pods all run on nodes that they must leave, and fit on existing nodes.

    A class with a pending pod is not returned: the scheduler may use its place for another pod, and then it needs a
    node at once. An evicted pod is replaced by a new pod, which counts as new.
    """
    fitting = {key for node in plan.existing for key in node.pods}
    wanted = fitting.union(*(node.pods for node in plan.nodes), (pending.pod for pending in plan.pending))
    pods = [pod for pod in snapshot.pods if pod.key in wanted]
    return {pod.class_key for pod in pods} - {
        pod.class_key for pod in pods if not pod.node_name or pod.key not in fitting
    }
