"""States of the sweep that resolve every node class, try the launches of some, and detect drift.

The detection writes the conditions of each class, so a class is resolved again if a verdict about its launches changed.
If that fails, the detection works with what was resolved before; the verdict is stored, and the next one reads it.
"""

from infra.machine_resources import MachineResources
from infra.states_language import EVERY_ERROR, Catch, State, States, choice_state, jsonata

RESOLVED: dict[str, str] = {"classes": jsonata("$states.result.Payload.classes")}


def drift_states(resources: MachineResources, *, next: str) -> States:
    """Return the states; they lead to `next`, also if one fails: the next sweep repeats a detection that failed."""
    return {
        "Is drift to be detected?": choice_state({"$due.drift": "Resolve node classes"}, otherwise=next),
        "Resolve node classes": _resolve(
            resources,
            assign={**RESOLVED, "validation": jsonata("$states.result.Payload.validation")},
            next="Is a class to be validated?",
            on_error=next,
        ),
        "Is a class to be validated?": choice_state(
            {"$validation != ''": "Validate node classes"}, otherwise="Detect drift"
        ),
        # Its role is the one that launches. Without its answer, classes keep the verdicts that they have
        "Validate node classes": resources.integrations.invoke(
            resources.functions["launch_instances"],
            {"validate": jsonata("$validation")},
            next="Did a verdict change?",
            assign={"changed": jsonata("$states.result.Payload.changed")},
            catch=[Catch([EVERY_ERROR], "Detect drift", kept=False)],
        ),
        "Did a verdict change?": choice_state({"$changed > 0": "Resolve node classes again"}, otherwise="Detect drift"),
        "Resolve node classes again": _resolve(
            resources, assign=RESOLVED, next="Detect drift", on_error="Detect drift"
        ),
        "Detect drift": resources.integrations.invoke(
            resources.functions["detect_drift"],
            {
                "classes": jsonata("$classes"),
                "instances": jsonata("$instance_survey.described"),
                "digest": jsonata("$cluster_survey.drift.digest"),
            },
            next=next,
            catch=[Catch([EVERY_ERROR], next)],
        ),
    }


def _resolve(resources: MachineResources, *, assign: dict[str, str], next: str, on_error: str) -> State:
    return resources.integrations.invoke(
        resources.functions["resolve_node_classes"],
        {"snapshot": jsonata("$cluster_survey.drift.snapshot"), "every": True},
        next=next,
        assign=assign,
        catch=[Catch([EVERY_ERROR], on_error)],
    )
