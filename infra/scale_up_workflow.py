"""The scale-up machine and its functions: from a ring to nodes that run the pending pods."""

from collections.abc import Mapping

from aws_cdk import Stack
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from infra.lambda_function import FunctionDependencies
from infra.logged_state_machine import LoggedStateMachine
from infra.machine_functions import SCALE_UP
from infra.machine_resources import MachineResources
from infra.planning_settings import default_spreads_environment
from infra.scale_up_states import scale_up_definition
from infra.service_integrations import ServiceIntegrations
from infra.settings import Settings
from infra.workflow_functions import called_functions, create_functions


class ScaleUpWorkflow(Construct):
    """The state machine `joiner-scale-up-<cluster>` and the functions that it invokes."""

    def __init__(self, scope: Construct, id: str, *, dependencies: FunctionDependencies, nodes: dict[str, str]) -> None:
        """`nodes` is the part of the environment that limits which nodes may be launched."""
        super().__init__(scope, id)
        settings = dependencies.settings
        self.functions = create_functions(
            self, SCALE_UP, dependencies=dependencies, environments=_environments(settings, nodes)
        )
        self.name = f"joiner-scale-up-{settings.cluster}"
        resources = MachineResources(
            integrations=ServiceIntegrations(Stack.of(self).partition),
            cluster=settings.cluster,
            table=dependencies.storage.table.table_name,
            functions=called_functions(self.functions),
        )
        self.machine = LoggedStateMachine(
            self,
            "States",
            name=self.name,
            definition=scale_up_definition(resources),
            kind=sfn.StateMachineType.STANDARD,
            settings=settings,
        )


def _environments(settings: Settings, nodes: Mapping[str, str]) -> Mapping[str, Mapping[str, str]]:
    return {
        "resolve_node_classes": {
            **nodes,
            "JOINER_NODE_OVERHEAD_PRICE": str(settings.planning.node_overhead_price_per_hour),
            "JOINER_VALIDATE_LAUNCHES": "true" if settings.node_classes.validate_launches else "false",
        },
        "launch_instances": nodes,
        "check_registration": default_spreads_environment(settings.planning),
        "find_pending_pods": {
            **default_spreads_environment(settings.planning),
            "JOINER_BATCH_IDLE_SECONDS": str(settings.batching.idle_seconds),
            "JOINER_BATCH_LONGEST_SECONDS": str(settings.batching.longest_seconds),
        },
        "plan_capacity": {
            "JOINER_CEILING_NODES": str(settings.ceilings.nodes),
            "JOINER_CEILING_PRICE_PER_HOUR": str(settings.ceilings.price_per_hour),
            "JOINER_FEWER_NODES_PERCENT": str(settings.planning.fewer_nodes_tolerance_percent),
            "JOINER_ZONE_SPREAD_PERCENT": str(settings.planning.zone_spread_tolerance_percent),
            "JOINER_PREFERENCE_POLICY": settings.planning.preference_policy,
            "JOINER_MIN_VALUES_POLICY": settings.planning.min_values_policy,
        },
    }
