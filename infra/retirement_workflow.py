"""The retirement machines and their functions: from claims to retire until nothing of them is left. A Standard and an
Express machine have the same states. The Express machine retires empty nodes, the most frequent retirement, and costs
almost nothing."""

from dataclasses import replace

from aws_cdk import Stack
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.lambda_function import FunctionDependencies
from infra.logged_state_machine import LoggedStateMachine
from infra.machine_functions import RETIREMENT
from infra.retirement_limits import EXPRESS_LIMITS
from infra.retirement_states import RetirementResources, retirement_definition
from infra.service_integrations import ServiceIntegrations
from infra.workflow_functions import called_functions, create_functions


class RetirementWorkflow(Construct):
    """The state machines `joiner-retire-<cluster>`, which the sweep and `handle_interruption` start, and
    `joiner-empty-<cluster>`, which only the sweep starts, and their functions. Neither name is a prefix of the other:
    otherwise a machine of one cluster could have the name of another cluster's machine."""

    def __init__(self, scope: Construct, id: str, *, dependencies: FunctionDependencies, scale_up_arn: str) -> None:
        super().__init__(scope, id)
        settings = dependencies.settings
        self.functions = create_functions(self, RETIREMENT, dependencies=dependencies)
        self.name = f"joiner-retire-{settings.cluster}"
        resources = RetirementResources(
            integrations=ServiceIntegrations(Stack.of(self).partition),
            cluster=settings.cluster,
            table=dependencies.storage.table.table_name,
            scale_up_arn=scale_up_arn,
            functions=called_functions(self.functions),
        )
        self.machine = LoggedStateMachine(
            self,
            "States",
            name=self.name,
            definition=retirement_definition(resources),
            kind=sfn.StateMachineType.STANDARD,
            settings=settings,
        )
        self.machine_for_empty = LoggedStateMachine(
            self,
            "StatesForEmpty",
            name=f"joiner-empty-{settings.cluster}",
            definition=retirement_definition(replace(resources, limits=EXPRESS_LIMITS)),
            kind=sfn.StateMachineType.EXPRESS,
            settings=settings,
        )
