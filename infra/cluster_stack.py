"""The stack of one cluster: it connects the constructs, and grants every permission beyond a function's own items and
documents."""

from pathlib import Path

from aws_cdk import ArnFormat, CfnOutput, CustomResource, Environment, Stack, Tags
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra import aws_permissions
from infra.alarms import Alarms, AlarmSources, DoorbellLogs
from infra.asset_bundles import BundleTarget
from infra.aws_permissions import AccountRegion
from infra.catalogue_refresh import CatalogueRefreshSchedule
from infra.deletion_guard import DeletionGuard
from infra.disruption_workflow import DisruptionWorkflow
from infra.doorbell_api import DoorbellApi
from infra.function_access_entries import FunctionAccessEntries
from infra.interruption_queue import InterruptionEventQueue
from infra.lambda_function import FunctionDependencies, LambdaFunction, LambdaLayers
from infra.launch_template_collection import LaunchTemplateCollection
from infra.logged_state_machine import LoggedStateMachine
from infra.manifest_installation import ManifestInstallation
from infra.node_roles import NodeIdentity
from infra.pause_parameter import PauseSsmParameter
from infra.retirement_workflow import RetirementWorkflow
from infra.scale_up_workflow import ScaleUpWorkflow
from infra.schedule_dependencies import deploy_after_role_policies
from infra.settings import Settings
from infra.storage import Storage
from infra.sweep_workflow import SweepWorkflow
from joiner.names import stack_name


class ClusterStack(Stack):
    """Joiner for one EKS cluster."""

    def __init__(self, scope: Construct, settings: Settings) -> None:
        super().__init__(
            scope,
            stack_name(settings.cluster),
            env=Environment(account=settings.account, region=settings.region),
            description=f"Joiner: nodes for the EKS cluster {settings.cluster}",
            termination_protection=settings.deletion_protection,
        )
        self.settings = settings
        self.account_region = AccountRegion(self.partition, self.region, self.account)
        self.storage = Storage(self, "Memory", settings=settings)
        dependencies = self._dependencies()
        self.pause = PauseSsmParameter(self, "Pause", dependencies=dependencies)
        self.nodes = NodeIdentity(self, "Nodes", dependencies=dependencies)
        self.scale_up = ScaleUpWorkflow(
            self, "ScaleUp", dependencies=dependencies, nodes=self.nodes.environment(settings)
        )
        self.retirement = RetirementWorkflow(
            self, "Retirement", dependencies=dependencies, scale_up_arn=self.scale_up.machine.arn
        )
        machines = {"scale_up_arn": self.scale_up.machine.arn, "retire_arn": self.retirement.machine.arn}
        self.disruption = DisruptionWorkflow(
            self, "Disruption", dependencies=dependencies, **machines, of_scale_ups=self.scale_up.functions
        )
        self.sweep = self._create_sweep(dependencies)
        self.doorbell = self._create_doorbell(dependencies)
        self.interruption = InterruptionEventQueue(self, "Interruption", dependencies=dependencies, **machines)
        self.launch_templates = LaunchTemplateCollection(self, "LaunchTemplates", dependencies=dependencies)
        self.catalogue = CatalogueRefreshSchedule(self, "Catalogue", dependencies=dependencies)
        self.installation = self._create_installation(dependencies)
        self.access = self._create_access_entries()
        self.alarms = Alarms(self, "Alarms", settings=settings, sources=self._alarm_sources())
        self.emptied = self._empty_bucket_on_deletion(dependencies)
        self.guard = DeletionGuard(self, "DeletionGuard", dependencies=dependencies, before=list(self.node.children))
        self._grant_permissions()
        self._order_resources()
        self._export_outputs()
        self._apply_tags_and_boundary()

    def _dependencies(self) -> FunctionDependencies:
        interpreter = self.node.try_get_context("interpreter")
        target = BundleTarget.of(self.settings.runtime, Path(interpreter) if interpreter else None)
        return FunctionDependencies(self.settings, target, LambdaLayers(self, "Layers", target=target), self.storage)

    def _create_sweep(self, dependencies: FunctionDependencies) -> SweepWorkflow:
        return SweepWorkflow(
            self,
            "Sweep",
            dependencies=dependencies,
            scale_up_arn=self.scale_up.machine.arn,
            retire_arn=self.retirement.machine.arn,
            retire_empty_arn=self.retirement.machine_for_empty.arn,
            disrupt_arn=self.disruption.machine.arn,
            of_scale_ups=self.scale_up.functions,
        )

    def _create_doorbell(self, dependencies: FunctionDependencies) -> DoorbellApi:
        return DoorbellApi(
            self,
            "Doorbell",
            dependencies=dependencies,
            scale_up_arn=self.scale_up.machine.arn,
            sweep_arn=self.sweep.machine.arn,
        )

    def _create_installation(self, dependencies: FunctionDependencies) -> ManifestInstallation:
        return ManifestInstallation(
            self,
            "Installation",
            dependencies=dependencies,
            doorbell_url=self.doorbell.url,
            admitted=self._functions_in_the_cluster(),
            nodes=self.nodes,
        )

    def _functions_in_the_cluster(self) -> list[LambdaFunction]:
        return [each for each in self._functions_of_the_machines() if each.configuration.groups]

    def _create_access_entries(self) -> FunctionAccessEntries | None:
        """Return the access entries; none for a cluster that reads roles from aws-auth only."""
        if self.settings.uses_aws_auth:
            return None
        entries = FunctionAccessEntries(
            self,
            "Access",
            settings=self.settings,
            functions=self._functions_in_the_cluster(),
            installer=self.installation.installer,
        )
        entries.node.add_dependency(self.installation.cluster)  # which refuses a cluster without access entries
        return entries

    def _alarm_sources(self) -> AlarmSources:
        return AlarmSources(
            scale_up=self.scale_up.machine.machine,
            retirement=self.retirement.machine.machine,
            retirement_of_empty=self.retirement.machine_for_empty.machine,
            disruption=self.disruption.machine.machine,
            sweep=self.sweep.machine.machine,
            survey=self.sweep.functions["survey_cluster"].function,
            dead_letters=self.interruption.dead_letters,
            interruptions=self.interruption.queue,
            catalogue=self.catalogue.function.function,
            node_access=self.nodes.function.function,
            launch_templates=self.launch_templates.function.function,
            describer=self.installation.describer.function,
            elevator=None if self.installation.elevator is None else self.installation.elevator.function,
            doorbell_logs=DoorbellLogs(self.doorbell.function.log_group, self.doorbell.access_log),
        )

    def _functions_of_the_machines(self) -> list[LambdaFunction]:
        machines = (self.scale_up, self.retirement, self.disruption, self.sweep)
        return [function for machine in machines for function in machine.functions.values()]

    def _grant_permissions(self) -> None:
        self._grant_scale_up_functions()
        self._grant_removing_functions()
        for function in self._functions_of_the_machines():
            if function.configuration.reads_pause:
                function.grant(self.pause.allow_reading())
        self._grant_other_functions()
        self._grant_machines()

    def _grant_scale_up_functions(self) -> None:
        settings, functions = self.settings, self.scale_up.functions
        functions["launch_instances"].grant(
            *aws_permissions.allow_launches(
                settings, self.account_region, self.nodes.arns, self.installation.own_network
            )
        )
        functions["resolve_node_classes"].grant(
            *aws_permissions.allow_resolving_node_classes(settings, self.account_region)
        )

    def _grant_removing_functions(self) -> None:
        settings, sweep, retirement = self.settings, self.sweep.functions, self.retirement.functions
        self.launch_templates.function.grant(
            *aws_permissions.allow_collecting_launch_templates(settings, self.account_region)
        )
        sweep["survey_instances"].grant(
            # DescribeInstanceStatus: failing status checks and scheduled events; it has no resources
            aws_permissions.allow_describing(settings, "Instances", "InstanceStatus"),
            aws_permissions.allow_naming_instances(settings, self.account_region),
            aws_permissions.allow_reading_consoles(settings, self.account_region),
            # No API describes an Express execution
            self._describe_executions(self.scale_up.name, self.retirement.name, self.disruption.name),
        )
        sweep["collect_garbage"].grant(*aws_permissions.allow_terminations(settings, self.account_region))
        retirement["terminate_instances"].grant(*aws_permissions.allow_terminations(settings, self.account_region))
        retirement["confirm_termination"].grant(aws_permissions.allow_describing(settings, "Instances"))

    def _grant_other_functions(self) -> None:
        settings = self.settings
        self.catalogue.function.grant(*aws_permissions.allow_reading_prices(settings, self.account_region))
        awaiting = [self.scale_up.machine.arn, self.disruption.machine.arn]
        wake = iam.PolicyStatement(actions=["states:SendTaskSuccess"], resources=awaiting)
        self.doorbell.function.grant(_allow_starting(self.scale_up.machine, self.sweep.machine), wake)
        self.interruption.function.grant(
            _allow_starting(self.scale_up.machine, self.retirement.machine),
            self._describe_executions(self.retirement.name),
            aws_permissions.allow_describing(settings, "Instances"),
            self.pause.allow_reading(),
        )
        self.nodes.function.grant(
            *aws_permissions.allow_keeping_node_access(
                settings, self.account_region, self.nodes.arns, self.nodes.windows_arns
            )
        )
        self.guard.function.grant(
            aws_permissions.allow_describing(settings, "Instances"),
            self.pause.allow_reading(),
            self.pause.allow_writing(),
        )

    def _grant_machines(self) -> None:
        self._grant_machine(self.scale_up.machine, list(self.scale_up.functions.values()))
        for retirement in (self.retirement.machine, self.retirement.machine_for_empty):
            self._grant_machine(retirement, list(self.retirement.functions.values()))
            self.storage.grant_updates(retirement.machine, "LEASE")
        invoked = {**self.sweep.functions, **self.sweep.shared, **{one.name: one for one in self.sweep.kept_warm}}
        self._grant_machine(self.sweep.machine, list(invoked.values()))
        self.sweep.machine.grant(
            _allow_starting(self.retirement.machine, self.retirement.machine_for_empty, self.disruption.machine)
        )
        self._grant_machine(
            self.disruption.machine, [*self.disruption.functions.values(), *self.disruption.shared.values()]
        )
        self.disruption.machine.grant(_allow_starting(self.retirement.machine))
        self.storage.grant_updates(self.scale_up.machine.machine, "LEASE", "WAVE")
        self.storage.grant_updates(self.disruption.machine.machine, "LEASE", "WAVE")
        self.storage.grant_updates(self.sweep.machine.machine, "LEASE")

    def _grant_machine(self, machine: LoggedStateMachine, functions: list[LambdaFunction]) -> None:
        cluster = self.format_arn(service="eks", resource="cluster", resource_name=self.settings.cluster)
        # By name, not by reference: a machine that starts itself would depend on the policy of its own role
        started = [self._states_arn("stateMachine", self.scale_up.name)]
        started += [
            self._states_arn("stateMachine", one.name)
            for one in (self.retirement, self.sweep)
            if machine is one.machine
        ]
        machine.grant(
            iam.PolicyStatement(
                actions=["lambda:InvokeFunction"], resources=[arn for function in functions for arn in function.arns]
            ),
            iam.PolicyStatement(actions=["eks:DescribeCluster"], resources=[cluster]),
            self.pause.allow_reading(),
            iam.PolicyStatement(actions=["states:StartExecution"], resources=started),
        )

    def _describe_executions(self, *machines: str) -> iam.PolicyStatement:
        return iam.PolicyStatement(
            actions=["states:DescribeExecution"],
            resources=[self._states_arn("execution", f"{name}:*") for name in machines],
        )

    def _states_arn(self, resource: str, name: str) -> str:
        return self.format_arn(
            service="states", resource=resource, resource_name=name, arn_format=ArnFormat.COLON_RESOURCE_NAME
        )

    def _order_resources(self) -> None:
        """Set dependencies: nothing rings or sweeps before everything exists. At deletion the schedule and the webhook
        are deleted first."""
        installed = self.installation.last
        access = () if self.access is None else (self.access,)
        self.installation.first.node.add_dependency(*access, self.scale_up, self.doorbell, self.catalogue.first)
        # Created before anything writes to the bucket, so that the rollback of a deployment empties it, too
        self.catalogue.first.node.add_dependency(self.emptied)
        # Deleted after the state machines, which create launch templates
        self.scale_up.machine.node.add_dependency(self.launch_templates.templates)
        self.disruption.machine.node.add_dependency(self.launch_templates.templates)
        self.sweep.machine.node.add_dependency(self.launch_templates.templates)
        # Deleted after everything that it pauses
        for paused in (self.scale_up, self.retirement, self.disruption, self.sweep, self.interruption):
            paused.node.add_dependency(self.pause.resource)
        self.sweep.schedule.node.add_dependency(installed, self.sweep.machine, self.nodes)
        deploy_after_role_policies(self)
        # Two alarms treat missing data as breaching, so their sources exist first
        self.alarms.node.add_dependency(self.sweep.schedule, self.catalogue.first)

    def _empty_bucket_on_deletion(self, dependencies: FunctionDependencies) -> CustomResource:
        """Return the custom resource that empties the bucket. It exists also if data is kept: if it were removed with
        the change to `retainData: true`, its deletion would empty the bucket that is to be kept."""
        keeps = self.settings.retain_data or self.settings.deletion_protection
        function = LambdaFunction(self, "EmptyBucket", name="empty_bucket", dependencies=dependencies)
        bucket = self.storage.bucket
        function.grant(
            iam.PolicyStatement(actions=["s3:ListBucket"], resources=[bucket.bucket_arn]),
            iam.PolicyStatement(actions=["s3:DeleteObject"], resources=[bucket.arn_for_objects("*")]),
        )
        return CustomResource(
            self,
            "EmptiedBucket",
            service_token=function.function.function_arn,
            resource_type="Custom::EmptiedBucket",
            properties={"Bucket": bucket.bucket_name, "Empty": "false" if keeps else "true"},
        )

    def _export_outputs(self) -> None:
        console = f"https://{self.region}.console.aws.amazon.com/states/home?region={self.region}#/statemachines/view"
        settings = self.node.try_get_context("cluster") or self.settings.cluster
        outputs = {
            "ScaleUpArn": (self.scale_up.machine.arn, "The state machine that adds nodes"),
            "ScaleUpConsole": (f"{console}/{self.scale_up.machine.arn}", "Every scale-up, state by state"),
            "RetireArn": (self.retirement.machine.arn, "The state machine that retires nodes"),
            "RetireConsole": (f"{console}/{self.retirement.machine.arn}", "Every retirement, state by state"),
            "RetireEmptyArn": (self.retirement.machine_for_empty.arn, "The state machine that retires empty nodes"),
            "RetireEmptyConsole": (
                f"{console}/{self.retirement.machine_for_empty.arn}",
                "Retirements of empty nodes, by their logs",
            ),
            "DisruptArn": (
                self.disruption.machine.arn,
                "The state machine that removes or replaces nodes to save money",
            ),
            "DisruptConsole": (f"{console}/{self.disruption.machine.arn}", "Every disruption, state by state"),
            "SweepArn": (self.sweep.machine.arn, "The state machine that checks the cluster and EC2 every minute"),
            "SweepConsole": (f"{console}/{self.sweep.machine.arn}", "What the sweep starts"),
            "SweepScheduleName": (self.sweep.schedule.schedule_name, "The schedule of the sweep"),
            "DoorbellUrl": (self.doorbell.url, "What the API server calls; the token that follows is not an output"),
            "TableName": (self.storage.table.table_name, "Lease, launches, assignments, waves"),
            "LaunchFunction": (
                self.scale_up.functions["launch_instances"].function.function_name,
                "`joiner accept` invokes it for dry runs",
            ),
            "BucketName": (self.storage.bucket.bucket_name, "Snapshots, plans, the catalogue"),
            "PauseParameter": (self.pause.name, "`true` pauses Joiner; `joiner pause` writes it"),
            "InterruptionQueueUrl": (
                self.interruption.queue.queue_url,
                "Notices of EC2 and AWS Health about instances",
            ),
            "ControlPlaneEgress": (self.installation.egress, "Whether the cluster's API server reaches the doorbell"),
            "SettingsName": (str(settings), "The name of the settings, NAME in `cdk deploy -c cluster=NAME`"),
            "NodeRole": (self.nodes.names[0], "The role to name in node classes"),
            "InstanceProfile": (self.nodes.profile.ref, "The default instance profile of nodes"),
        }
        for name, (value, description) in outputs.items():
            CfnOutput(self, name, value=value, description=description)

    def _apply_tags_and_boundary(self) -> None:
        for key, value in self.settings.tags.items():
            Tags.of(self).add(key, value)
        boundary = self.settings.permissions_boundary
        if boundary is not None:
            from_settings = (
                iam.ManagedPolicy.from_managed_policy_arn
                if boundary.startswith("arn:")
                else iam.ManagedPolicy.from_managed_policy_name
            )
            iam.PermissionsBoundary.of(self).apply(from_settings(self, "Boundary", boundary))


def _allow_starting(*machines: LoggedStateMachine) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=["states:StartExecution"], resources=[machine.arn for machine in machines])
