"""The RETIRE machine and its functions: from claims that have to go until nothing of them is left."""

from typing import Final

from aws_cdk import Stack
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.functions import Function, Ground
from infra.observability import Machine
from infra.retirement_states import RetirementParts, retire
from infra.scale_up import callee, construct_id
from infra.states import Integrations

FUNCTIONS: Final = ("begin_retirement", "evict_pods", "terminate_instances", "confirm_termination", "forget_nodes")


class Retirement(Construct):
    """The machine `joiner-retire-<cluster>` and what it calls. Only the sweep and `handle_interruption` start it."""

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
