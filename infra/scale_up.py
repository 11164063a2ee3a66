"""The SCALE UP machine and its functions: from a ring to nodes that run the pods it was about."""

from typing import Final

from aws_cdk import Stack
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.functions import Function, Ground
from infra.observability import Machine
from infra.scale_up_states import ScaleUpParts, scale_up
from infra.states import Callee, Integrations

FUNCTIONS: Final = (
    "find_pending_pods",
    "resolve_node_classes",
    "plan_capacity",
    "record_node_claims",
    "launch_instances",
    "record_launches",
    "check_registration",
)


class ScaleUp(Construct):
    """The machine `joiner-scale-up-<cluster>` and what it calls."""

    def __init__(self, scope: Construct, id: str, *, ground: Ground, nodes: dict[str, str]) -> None:
        """`nodes` is the part of the environment that says which nodes may be launched."""
        super().__init__(scope, id)
        settings = ground.settings
        environments = {
            "resolve_node_classes": nodes,
            "launch_instances": nodes,
            "plan_capacity": {
                "JOINER_CEILING_NODES": str(settings.ceilings.nodes),
                "JOINER_CEILING_PRICE_PER_HOUR": str(settings.ceilings.price_per_hour),
            },
        }
        self.functions = {
            name: Function(self, construct_id(name), name=name, ground=ground, environment=environments.get(name)) for name in FUNCTIONS
        }
        self.name = f"joiner-scale-up-{settings.cluster}"
        parts = ScaleUpParts(
            integrations=Integrations(Stack.of(self).partition),
            cluster=settings.cluster,
            table=ground.memory.table.table_name,
            functions={name: callee(function) for name, function in self.functions.items()},
        )
        self.machine = Machine(
            self, "States", name=self.name, definition=scale_up(parts), kind=sfn.StateMachineType.STANDARD, settings=settings
        )


def callee(function: Function) -> Callee:
    """A function as its state machine calls it."""
    return Callee(function.published.function_arn, function.duty.timeout)


def construct_id(function_name: str) -> str:
    """
    >>> construct_id("find_pending_pods")
    'FindPendingPods'
    """
    return "".join(word.capitalize() for word in function_name.split("_"))
