"""The stack of one cluster: where the constructs meet, and where every permission beyond a function's own memory is granted."""

from aws_cdk import ArnFormat, CfnOutput, CustomResource, Environment, Stack, Tags
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra import ec2_permissions
from infra.bundling import Target
from infra.catalogue import Catalogue
from infra.deletion_guard import DeletionGuard
from infra.doorbell import Doorbell
from infra.ec2_permissions import Place
from infra.functions import Function, Ground, Layers
from infra.identity import ClusterAccess, NodeIdentity
from infra.installation import Installation
from infra.interruption import Interruption
from infra.memory import Memory
from infra.observability import Alarms, DoorbellLogs, Machine
from infra.pause import Pause
from infra.retirement import Retirement
from infra.scale_up import ScaleUp
from infra.settings import Settings
from infra.sweep import Sweep
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
        self.place = Place(self.partition, self.region, self.account)
        self.memory = Memory(self, "Memory", settings=settings)
        self.pause = Pause(self, "Pause", settings=settings)
        target = Target.of(settings.runtime)
        ground = Ground(settings, target, Layers(self, "Layers", target=target), self.memory)
        self.nodes = NodeIdentity(self, "Nodes", ground=ground)
        self.scale_up = ScaleUp(self, "ScaleUp", ground=ground, nodes=self.nodes.environment(settings))
        self.retirement = Retirement(self, "Retirement", ground=ground, scale_up_arn=self.scale_up.machine.arn)
        machines = {"scale_up_arn": self.scale_up.machine.arn, "retire_arn": self.retirement.machine.arn}
        self.sweep = Sweep(self, "Sweep", ground=ground, **machines, retire_empty_arn=self.retirement.machine_for_empty.arn)
        self.doorbell = Doorbell(self, "Doorbell", ground=ground, scale_up_arn=self.scale_up.machine.arn, sweep_arn=self.sweep.machine.arn)
        self.interruption = Interruption(self, "Interruption", ground=ground, **machines)
        self.catalogue = Catalogue(self, "Catalogue", ground=ground)
        self.installation = Installation(self, "Installation", ground=ground, doorbell_url=self.doorbell.url)
        self.access = ClusterAccess(
            self,
            "Access",
            settings=settings,
            functions=[each for each in self._functions_of_the_machines() if each.duty.groups],
            installer=self.installation.installer,
        )
        self.alarms = Alarms(
            self,
            "Alarms",
            settings=settings,
            scale_up=self.scale_up.machine.machine,
            retirement=self.retirement.machine.machine,
            retirement_of_empty=self.retirement.machine_for_empty.machine,
            sweep=self.sweep.machine.machine,
            dead_letters=self.interruption.dead_letters,
            interruptions=self.interruption.queue,
            catalogue=self.catalogue.function.function,
            node_access=self.nodes.function.function,
            describer=self.installation.describer.function,
            elevator=self.installation.elevator.function,
            doorbell_logs=DoorbellLogs(self.doorbell.function.log_group, self.doorbell.access_log),
        )
        self.emptied = self._empty_the_bucket_at_the_end(ground)
        self.guard = DeletionGuard(self, "DeletionGuard", ground=ground, before=list(self.node.children))
        self._grant()
        self._order()
        self._tell()
        self._mark()

    def _functions_of_the_machines(self) -> list[Function]:
        return [*self.scale_up.functions.values(), *self.retirement.functions.values(), *self.sweep.functions.values()]

    def _grant(self) -> None:
        settings, functions = self.settings, self.scale_up.functions
        functions["launch_instances"].may(*ec2_permissions.may_launch(settings, self.place, self.nodes.arns, self.installation.own_network))
        functions["resolve_node_classes"].may(*ec2_permissions.may_resolve_node_classes(settings, self.place))
        self.catalogue.function.may(*ec2_permissions.may_read_the_market(settings))
        self.sweep.functions["survey_instances"].may(
            ec2_permissions.may_look(settings, "Instances"), ec2_permissions.may_name(settings, self.place), self._describe_executions()
        )
        self.sweep.functions["collect_garbage"].may(*ec2_permissions.may_terminate(settings, self.place))
        wake = iam.PolicyStatement(actions=["states:SendTaskSuccess"], resources=[self.scale_up.machine.arn])
        self.doorbell.function.may(_starting(self.scale_up.machine, self.sweep.machine), wake)
        self.interruption.function.may(
            _starting(self.scale_up.machine, self.retirement.machine),
            ec2_permissions.may_look(settings, "Instances"),
            self.pause.reading(),
        )
        self.nodes.function.may(*ec2_permissions.may_keep_node_access(settings, self.place, self.nodes.arns))
        self.guard.function.may(ec2_permissions.may_look(settings, "Instances"), self.pause.reading(), self.pause.writing())
        self._grant_machine(self.scale_up.machine, list(functions.values()))
        for retirement in (self.retirement.machine, self.retirement.machine_for_empty):
            self._grant_machine(retirement, list(self.retirement.functions.values()))
            self.memory.admit_to_update(retirement.machine, "LEASE")
        self._grant_machine(self.sweep.machine, list(self.sweep.functions.values()))
        self.sweep.machine.may(_starting(self.retirement.machine, self.retirement.machine_for_empty))
        self.retirement.functions["terminate_instances"].may(*ec2_permissions.may_terminate(settings, self.place))
        self.retirement.functions["confirm_termination"].may(ec2_permissions.may_look(settings, "Instances"))
        for function in self._functions_of_the_machines():
            if function.duty.heeds_pause:
                function.may(self.pause.reading())
        self.memory.admit_to_update(self.scale_up.machine.machine, "LEASE", "WAVE")
        self.memory.admit_to_update(self.sweep.machine.machine, "LEASE")

    def _grant_machine(self, machine: Machine, functions: list[Function]) -> None:
        cluster = self.format_arn(service="eks", resource="cluster", resource_name=self.settings.cluster)
        # By name, not by reference: a machine that starts itself would depend on its own role's policy
        scale_up = self._states_arn("stateMachine", self.scale_up.name)
        machine.may(
            iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=[arn for function in functions for arn in function.arns]),
            iam.PolicyStatement(actions=["eks:DescribeCluster"], resources=[cluster]),
            self.pause.reading(),
            iam.PolicyStatement(actions=["states:StartExecution"], resources=[scale_up]),
        )

    def _describe_executions(self) -> iam.PolicyStatement:
        machines = (self.scale_up.name, self.retirement.name)  # nobody can ask after an Express execution
        return iam.PolicyStatement(
            actions=["states:DescribeExecution"], resources=[self._states_arn("execution", f"{name}:*") for name in machines]
        )

    def _states_arn(self, resource: str, name: str) -> str:
        return self.format_arn(service="states", resource=resource, resource_name=name, arn_format=ArnFormat.COLON_RESOURCE_NAME)

    def _order(self) -> None:
        """Nothing rings or sweeps before everything is there; at the end the clock stops and the webhook goes before anything else."""
        installed = self.installation.revoked
        self.installation.granted.node.add_dependency(self.access, self.scale_up, self.doorbell, self.catalogue.first)
        # There before anything writes to the bucket, so that a deployment that fails empties it, too
        self.catalogue.first.node.add_dependency(self.emptied)
        self.sweep.schedule.node.add_dependency(installed, self.sweep.machine, self.nodes)
        self.alarms.node.add_dependency(self.sweep.schedule, self.catalogue.first)  # two of them ask for what these do first

    def _empty_the_bucket_at_the_end(self, ground: Ground) -> CustomResource:
        """There in any case: if it went with the change to `retainData: true`, its end would empty the bucket that is to be kept."""
        keeps = self.settings.retain_data or self.settings.deletion_protection
        function = Function(self, "EmptyBucket", name="empty_bucket", ground=ground)
        bucket = self.memory.bucket
        function.may(
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

    def _tell(self) -> None:
        console = f"https://{self.region}.console.aws.amazon.com/states/home?region={self.region}#/statemachines/view"
        outputs = {
            "ScaleUpArn": (self.scale_up.machine.arn, "The state machine that adds nodes"),
            "ScaleUpConsole": (f"{console}/{self.scale_up.machine.arn}", "Every scale-up, state by state"),
            "RetireArn": (self.retirement.machine.arn, "The state machine that takes nodes away"),
            "RetireConsole": (f"{console}/{self.retirement.machine.arn}", "Every retirement, state by state"),
            "RetireEmptyArn": (self.retirement.machine_for_empty.arn, "The state machine that takes empty nodes away"),
            "RetireEmptyConsole": (f"{console}/{self.retirement.machine_for_empty.arn}", "What becomes of empty nodes, by its logs"),
            "SweepArn": (self.sweep.machine.arn, "The state machine that looks every minute"),
            "SweepConsole": (f"{console}/{self.sweep.machine.arn}", "What the sweep starts"),
            "SweepScheduleName": (self.sweep.schedule.schedule_name, "The sweep's clock"),
            "DoorbellUrl": (self.doorbell.url, "What the API server rings; the token that follows it is no output"),
            "TableName": (self.memory.table.table_name, "Lease, launches, assignments, waves"),
            "LaunchFunction": (self.scale_up.functions["launch_instances"].function.function_name, "`joiner accept` asks it for dry runs"),
            "BucketName": (self.memory.bucket.bucket_name, "Snapshots, plans, the catalogue"),
            "PauseParameter": (self.pause.parameter.parameter_name, "`true` pauses Joiner; `joiner pause` writes it"),
            "InterruptionQueueUrl": (self.interruption.queue.queue_url, "What EC2 and AWS Health say about instances"),
            "ControlPlaneEgress": (self.installation.egress, "Whether the cluster's API server reaches the doorbell"),
            "NodeRole": (self.nodes.names[0], "The role to name in node classes"),
            "InstanceProfile": (self.nodes.profile.ref, "The default instance profile of nodes"),
        }
        for name, (value, description) in outputs.items():
            CfnOutput(self, name, value=value, description=description)

    def _mark(self) -> None:
        for key, value in self.settings.tags.items():
            Tags.of(self).add(key, value)
        boundary = self.settings.permissions_boundary
        if boundary is not None:
            from_settings = (
                iam.ManagedPolicy.from_managed_policy_arn if boundary.startswith("arn:") else iam.ManagedPolicy.from_managed_policy_name
            )
            iam.PermissionsBoundary.of(self).apply(from_settings(self, "Boundary", boundary))


def _starting(*machines: Machine) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=["states:StartExecution"], resources=[machine.arn for machine in machines])
