"""The functions that each state machine invokes, by name.

No constructs are here: the tests that execute the machines need the names without the CDK, whose import takes seconds.
"""

from typing import Final

SCALE_UP: Final = (
    "find_pending_pods",
    "resolve_node_classes",
    "plan_capacity",
    "record_node_claims",
    "launch_instances",
    "record_launches",
    "check_registration",
)

RETIREMENT: Final = ("begin_retirement", "evict_pods", "terminate_instances", "confirm_termination", "forget_nodes")

SWEEP: Final = ("survey_cluster", "survey_instances", "collect_garbage", "rebuild_claims", "detect_drift")

SCALE_UP_FUNCTIONS_OF_SWEEP: Final = ("resolve_node_classes", "launch_instances")
"""Functions of scale-ups that the detection of drift uses, too: one resolves node classes, one tries their launches."""

DISRUPTION: Final = ("find_candidates", "propose_disruption", "report_candidates", "mark_nodes", "settle_disruptions")

SCALE_UP_FUNCTIONS_OF_DISRUPTION: Final = (
    "resolve_node_classes",
    "record_node_claims",
    "launch_instances",
    "record_launches",
    "check_registration",
)
"""Functions of scale-ups that launch and await replacements, too."""

KEPT_WARM: Final = (
    "find_pending_pods",
    "resolve_node_classes",
    "plan_capacity",
    "record_node_claims",
    "launch_instances",
)
"""Functions of scale-ups up to CreateFleet. The others start while instances boot."""
