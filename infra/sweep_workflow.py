"""The sweep machine, its functions and its schedule: it finds what no signal reported."""

from collections.abc import Mapping, Sequence

from aws_cdk import ArnFormat, Duration, Stack
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as targets
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.lambda_function import FunctionDependencies, LambdaFunction
from infra.logged_state_machine import LoggedStateMachine
from infra.machine_functions import KEPT_WARM, SCALE_UP_FUNCTIONS_OF_SWEEP, SWEEP
from infra.service_integrations import ServiceIntegrations
from infra.settings import Settings, SweepSettings
from infra.sweep_states import SweepResources, WarmUp, sweep_definition
from infra.workflow_functions import called_functions, create_functions


class SweepWorkflow(Construct):
    """The state machine `joiner-sweep-<cluster>`, the functions that it invokes, and the schedule that starts it."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        dependencies: FunctionDependencies,
        scale_up_arn: str,
        retire_arn: str,
        retire_empty_arn: str,
        disrupt_arn: str,
        of_scale_ups: Mapping[str, LambdaFunction],
    ) -> None:
        super().__init__(scope, id)
        settings = dependencies.settings
        self.functions = create_functions(
            self, SWEEP, dependencies=dependencies, environments=_environments(settings.sweep)
        )
        self.shared = {name: of_scale_ups[name] for name in SCALE_UP_FUNCTIONS_OF_SWEEP}
        self.kept_warm = [of_scale_ups[name] for name in KEPT_WARM]
        self.name = f"joiner-sweep-{settings.cluster}"
        resources = SweepResources(
            integrations=ServiceIntegrations(Stack.of(self).partition),
            cluster=settings.cluster,
            scale_up_arn=scale_up_arn,
            retire_arn=retire_arn,
            retire_empty_arn=retire_empty_arn,
            disrupt_arn=disrupt_arn,
            sweep_arn=self._own_arn(),
            table=dependencies.storage.table.table_name,
            functions=called_functions({**self.functions, **self.shared}),
            warm_up=_warm_up(self.kept_warm, settings.sweep),
        )
        self.machine = self._create_machine(resources, settings)
        self.schedule = self._create_schedule(settings.sweep.every_minutes)

    def _create_machine(self, resources: SweepResources, settings: Settings) -> LoggedStateMachine:
        return LoggedStateMachine(
            self,
            "States",
            name=self.name,
            definition=sweep_definition(resources),
            kind=sfn.StateMachineType.EXPRESS,
            settings=settings,
        )

    def _own_arn(self) -> str:
        """Return the ARN of the machine by its name: a definition cannot refer to its own machine."""
        return Stack.of(self).format_arn(
            service="states",
            resource="stateMachine",
            resource_name=self.name,
            arn_format=ArnFormat.COLON_RESOURCE_NAME,
        )

    def _create_schedule(self, minutes: int) -> scheduler.Schedule:
        return scheduler.Schedule(
            self,
            "Schedule",
            schedule=scheduler.ScheduleExpression.rate(Duration.minutes(minutes)),
            # The next sweep retries what this one missed
            target=targets.StepFunctionsStartExecution(
                self.machine.machine, retry_attempts=0, max_event_age=Duration.minutes(1)
            ),
            description="Starts the sweep, which needs no signal",
        )


def _warm_up(functions: Sequence[LambdaFunction], sweep: SweepSettings) -> WarmUp:
    """Return which functions are kept warm, and how often sweeps do."""
    # State machines invoke published versions, whose environments are other ones than those of $LATEST
    published = tuple(one.published.function_arn for one in functions)
    return WarmUp(published, every_minutes=sweep.warm_up_minutes, sweep_minutes=sweep.every_minutes)


def _environments(sweep: SweepSettings) -> dict[str, dict[str, str]]:
    return {
        "survey_cluster": {"SWEEP_SECONDS": str(60 * sweep.every_minutes)},
        "survey_instances": {"CONFIRM_AFTER_SECONDS": str(sweep.confirm_after_seconds)},
    }
