"""RETIRE and its functions: from claims that have to go until nothing of them is left. Two machines of the same states: one Standard, and
one Express for nodes that are empty, which is the daily way down and costs next to nothing."""

from dataclasses import replace
from typing import Final

from aws_cdk import Stack
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.functions import Function, Ground
from infra.observability import Machine
from infra.retirement_states import BRIEF, RetirementParts, retire
from infra.scale_up import callee, construct_id
from infra.states import Integrations

FUNCTIONS: Final = ("begin_retirement", "evict_pods", "terminate_instances", "confirm_termination", "forget_nodes")


class Retirement(Construct):
    """The machines `joiner-retire-<cluster>`, which the sweep and `handle_interruption` start, and `joiner-empty-<cluster>`, which only the
    sweep starts, and what both call. Neither name begins with the other, or a cluster's could be another cluster's."""

    def __init__(self, scope: Construct, id: str, *, ground: Ground, scale_up_arn: str) -> None:
        super().__init__(scope, id)
        settings = ground.settings
        self.functions = {name: Function(self, construct_id(name), name=name, ground=ground) for name in FUNCTIONS}
        self.name = f"joiner-retire-{settings.cluster}"
        parts = RetirementParts(
            integrations=Integrations(Stack.of(self).partition),
            cluster=settings.cluster,
            table=ground.memory.table.table_name,
            scale_up_arn=scale_up_arn,
            functions={name: callee(function) for name, function in self.functions.items()},
        )
        self.machine = Machine(
            self, "States", name=self.name, definition=retire(parts), kind=sfn.StateMachineType.STANDARD, settings=settings
        )
        self.machine_for_empty = Machine(
            self,
            "StatesForEmpty",
            name=f"joiner-empty-{settings.cluster}",
            definition=retire(replace(parts, limits=BRIEF)),
            kind=sfn.StateMachineType.EXPRESS,
            settings=settings,
        )
