"""The disruption machine and its functions: from nodes that are not worth their price to their retirement."""

from collections.abc import Mapping

from aws_cdk import Stack
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.disruption_states import DisruptionResources, disruption_definition
from infra.lambda_function import FunctionDependencies, LambdaFunction
from infra.logged_state_machine import LoggedStateMachine
from infra.machine_functions import DISRUPTION, SCALE_UP_FUNCTIONS_OF_DISRUPTION
from infra.planning_settings import default_spreads_environment
from infra.service_integrations import ServiceIntegrations
from infra.workflow_functions import called_functions, create_functions


class DisruptionWorkflow(Construct):
    """The state machine `joiner-disrupt-<cluster>`, which only the sweep starts, and its functions."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        dependencies: FunctionDependencies,
        scale_up_arn: str,
        retire_arn: str,
        of_scale_ups: Mapping[str, LambdaFunction],
    ) -> None:
        super().__init__(scope, id)
        settings = dependencies.settings
        environments = {
            "find_candidates": default_spreads_environment(settings.planning),
            "propose_disruption": {
                "JOINER_CEILING_NODES": str(settings.ceilings.nodes),
                "JOINER_CEILING_PRICE_PER_HOUR": str(settings.ceilings.price_per_hour),
                "JOINER_PREFERENCE_POLICY": settings.planning.preference_policy,
                "JOINER_MIN_VALUES_POLICY": settings.planning.min_values_policy,
            },
        }
        self.functions = create_functions(self, DISRUPTION, dependencies=dependencies, environments=environments)
        self.shared = {name: of_scale_ups[name] for name in SCALE_UP_FUNCTIONS_OF_DISRUPTION}
        self.name = f"joiner-disrupt-{settings.cluster}"
        resources = DisruptionResources(
            integrations=ServiceIntegrations(Stack.of(self).partition),
            cluster=settings.cluster,
            table=dependencies.storage.table.table_name,
            scale_up_arn=scale_up_arn,
            retire_arn=retire_arn,
            functions=called_functions({**self.functions, **self.shared}),
        )
        self.machine = LoggedStateMachine(
            self,
            "States",
            name=self.name,
            definition=disruption_definition(resources),
            kind=sfn.StateMachineType.STANDARD,
            settings=settings,
        )
