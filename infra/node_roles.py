"""The IAM roles that nodes may have, their instance profiles, and their access entries in the cluster."""

import json

from aws_cdk import CustomResource, Duration, RemovalPolicy, Stack, Tags
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.function_triggers import create_custom_resource, create_schedule
from infra.lambda_function import FunctionDependencies, LambdaFunction
from infra.node_class_limits import node_class_limits
from infra.node_role_settings import bare_role_name
from infra.settings import Settings, node_role_name
from joiner.names import CLUSTER_TAG, profile_path

NODE_POLICIES = (
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonSSMManagedInstanceCore",
)
"""The policies that EKS requires of nodes, and the one for sessions of Systems Manager instead of SSH."""


class NodeIdentity(Construct):
    """The roles that nodes may have, their instance profiles, and their access entries.

    All of them outlive the stack, and a change of the settings, while instances use them. CloudFormation retains the
    role and the profiles; `keep_node_access` makes the access entries, and removes all three when no instance uses them
    (docs/decisions/0016).
    """

    def __init__(self, scope: Construct, id: str, *, dependencies: FunctionDependencies) -> None:
        super().__init__(scope, id)
        settings, stack = dependencies.settings, Stack.of(self)
        named = settings.node_roles.names or (node_role_name(settings),)
        self.names = [bare_role_name(each) for each in named]
        roles: list[iam.IRole] = (
            [iam.Role.from_role_name(self, f"Role{index}", name) for index, name in enumerate(self.names)]
            if settings.node_roles.names
            else [self._make_role(settings)]
        )
        self.own_arn, *self.arns = [
            stack.format_arn(service="iam", region="", resource="role", resource_name=each)
            for each in (node_role_name(settings), *named)
        ]
        self.windows_arns = [
            arn for each, arn in zip(named, self.arns, strict=True) if each in settings.node_roles.windows_names
        ]
        path = profile_path(settings.cluster, settings.region)
        self.profiles = [self._make_profile(name, role, path) for name, role in zip(self.names, roles, strict=True)]
        self.profile = self.profiles[0]
        self.function, self.access = self._keep_access(dependencies)

    def _keep_access(self, dependencies: FunctionDependencies) -> tuple[LambdaFunction, CustomResource]:
        settings = dependencies.settings
        wanted = {
            "Cluster": settings.cluster,
            "Roles": ",".join(self.arns),
            "WindowsRoles": ",".join(self.windows_arns),
            "ManageEntries": str(settings.node_roles.manage_node_access_entry and not settings.uses_aws_auth).lower(),
            "OwnRole": node_role_name(settings),
            "ProfilePath": profile_path(settings.cluster, settings.region),
            "Profiles": ",".join(each.ref for each in self.profiles),
        }
        environment = {f"NODE_ACCESS_{name.upper()}": value for name, value in wanted.items()}
        function = LambdaFunction(
            self, "KeepNodeAccess", name="keep_node_access", dependencies=dependencies, environment=environment
        )
        access = create_custom_resource(self, "Access", function, "Custom::NodeAccess", wanted)
        access.node.add_dependency(function, *self.profiles)
        schedule = create_schedule(
            self,
            "Schedule",
            function,
            "Removes access of nodes that no settings name and no instance uses",
            every=Duration.hours(1),
            retry_attempts=0,
            max_event_age=Duration.minutes(10),
        )
        schedule.node.add_dependency(access)
        return function, access

    def environment(self, settings: Settings) -> dict[str, str]:
        """Return the environment of the functions that choose the identity and the image of a node."""
        managed = settings.node_roles.manage_node_access_entry
        return {
            "JOINER_NODE_ROLES": ",".join(self.names),
            "JOINER_WINDOWS_ROLES": ",".join(
                map(bare_role_name, settings.node_roles.windows_names) if managed else self.names
            ),
            "JOINER_INSTANCE_PROFILE": self.profile.ref,
            "JOINER_ROLE_PROFILES": ",".join(each.ref for each in self.profiles),
            "JOINER_IMAGE_OWNERS": ",".join(settings.image_owners),
            "JOINER_ACCOUNT": Stack.of(self).account,
            "JOINER_NODE_CLASSES": json.dumps(node_class_limits(settings), sort_keys=True, separators=(",", ":")),
        }

    def _make_profile(self, name: str, role: iam.IRole, path: str) -> iam.CfnInstanceProfile:
        """Return the profile of one role: if the role of a profile changed, so would the permissions of running
        instances."""
        profile = iam.CfnInstanceProfile(self, f"Profile-{name}", roles=[role.role_name], path=path)
        profile.apply_removal_policy(RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)
        return profile

    def _make_role(self, settings: Settings) -> iam.Role:
        role = iam.Role(
            self,
            "Role",
            role_name=node_role_name(settings),  # users name it in their node classes
            assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"),
            description=f"Nodes that joiner launches for {settings.cluster}",
        )
        for policy in NODE_POLICIES:
            role.add_managed_policy(iam.ManagedPolicy.from_aws_managed_policy_name(policy))
        role.apply_removal_policy(RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE)
        Tags.of(role).add(CLUSTER_TAG, settings.cluster)
        return role
