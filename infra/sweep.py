"""The SWEEP machine, its functions and its clock: the look that needs no signal."""

from typing import Final

from aws_cdk import Duration, Stack
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.functions import Function, Ground
from infra.observability import Machine
from infra.scale_up import callee, construct_id
from infra.states import Integrations
from infra.sweep_states import SweepParts, sweep

FUNCTIONS: Final = ("survey_cluster", "survey_instances", "collect_garbage", "rebuild_claims")


class Sweep(Construct):
    """The machine `joiner-sweep-<cluster>`, what it calls, and the schedule that starts it."""

    def __init__(self, scope: Construct, id: str, *, ground: Ground, scale_up_arn: str, retire_arn: str, retire_empty_arn: str) -> None:
        super().__init__(scope, id)
        settings = ground.settings
        environments = {
            "survey_cluster": {"SWEEP_SECONDS": str(60 * settings.sweep.every_minutes)},
            "survey_instances": {"LOOKS_APART_SECONDS": str(settings.sweep.looks_apart_seconds)},
        }
        self.functions = {
            name: Function(self, construct_id(name), name=name, ground=ground, environment=environments.get(name)) for name in FUNCTIONS
        }
        parts = SweepParts(
            integrations=Integrations(Stack.of(self).partition),
            cluster=settings.cluster,
            scale_up_arn=scale_up_arn,
            retire_arn=retire_arn,
            retire_empty_arn=retire_empty_arn,
            table=ground.memory.table.table_name,
            functions={name: callee(function) for name, function in self.functions.items()},
        )
        self.machine = Machine(
            self,
            "States",
            name=f"joiner-sweep-{settings.cluster}",
            definition=sweep(parts),
            kind=sfn.StateMachineType.EXPRESS,
            settings=settings,
        )
        self.schedule = scheduler.Schedule(
            self,
            "Schedule",
            schedule=scheduler.ScheduleExpression.rate(Duration.minutes(settings.sweep.every_minutes)),
            # The next sweep is the retry of this one
            target=targets.StepFunctionsStartExecution(self.machine.machine, retry_attempts=0, max_event_age=Duration.minutes(1)),
            description="The look that needs no signal",
        )
