"""Why the stack differs from rules of cdk-nag's AwsSolutions pack: one reason for each kind of finding.

A finding without a reason fails `make check`, and so does a reason without a finding.
"""

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class NagFinding:
    """One rule that one construct does not meet."""

    rule: str
    construct: str

    def __str__(self) -> str:
        return f"{self.construct}: {self.rule}"


@dataclass(frozen=True, slots=True)
class NagSuppression:
    """Why findings of a rule at some constructs are accepted; both are regular expressions that must match the whole
    name."""

    rule: str
    constructs: str
    text: str
    always: bool = True
    """Whether the finding occurs on every machine."""

    def explains(self, finding: NagFinding) -> bool:
        """Return whether the suppression covers a finding.

        >>> finding = NagFinding("AwsSolutions-S1", "joiner-x/Memory/Decisions/Resource")
        >>> NagSuppression(r"AwsSolutions-S1", r"[^/]+/Memory/.*", "why").explains(finding)
        True
        """
        return bool(re.fullmatch(self.rule, finding.rule) and re.fullmatch(self.constructs, finding.construct))


EC2_KINDS: Final = (
    "image|snapshot|fleet|instance|launch-template|network-interface|security-group|spot-instances-request|subnet"
    "|volume|key-pair|capacity-reservation|placement-group"
)
SHARED_KINDS: Final = "capacity-reservation|placement-group|security-group|subnet"

SUPPRESSIONS: Final = (
    NagSuppression(
        r"AwsSolutions-L1",
        r"joiner-joiner-demo/.*/Function/Resource",
        "The local stack's functions run under the interpreter that runs the stack, whichever version that is.",
        always=False,
    ),
    NagSuppression(
        r"AwsSolutions-S1",
        r"[^/]+/Memory/Decisions/Resource",
        "A second bucket would record who read the first one. CloudTrail's data events record that where a company "
        "requires it; only the functions of this stack have access.",
    ),
    NagSuppression(
        r"AwsSolutions-SF2",
        r"[^/]+/(ScaleUp|Retirement|Sweep|Disruption)/States\w*/Machine/Resource",
        "The machines log every state with its input and output (level ALL), and metrics and alarms are made of their "
        "executions. X-Ray would add its price to each state and its permissions to each role, and show no more.",
    ),
    NagSuppression(
        r"AwsSolutions-APIG4",
        r"[^/]+/Doorbell/Api/POST--ring--\{token\}--\w+/Resource",
        "An EKS API server sends a webhook no header and no certificate that an authorizer could check. The secret in "
        "the path is the authorization; ring_doorbell compares it, and each deployment replaces it.",
    ),
    NagSuppression(
        r"AwsSolutions-IAM4\[Policy::arn:<AWS::Partition>:iam::aws:policy/"
        r"(AmazonEKSWorkerNodePolicy|AmazonEKS_CNI_Policy|AmazonEC2ContainerRegistryPullOnly"
        r"|AmazonSSMManagedInstanceCore)\]",
        r"[^/]+/Nodes/Role/Resource",
        "What EKS asks of a node's role, kept by AWS as EKS changes. No function of this stack has this role.",
    ),
    NagSuppression(
        r"AwsSolutions-IAM5\[Resource::<\w+Function\w+\.Arn>:\*\]",
        r"[^/]+/((ScaleUp|Retirement|Sweep|Disruption)/States\w*/Machine|Catalogue/AwaitCatalogue"
        r"|SchedulerRoleForTarget-\w+)/Role/DefaultPolicy/Resource"
        r"|[^/]+/SchedulerRoleForTarget-\w+/DefaultPolicy/Resource",
        "The versions of one function: an execution that began before an upgrade calls the version with which it "
        "began.",
    ),
    NagSuppression(
        r"AwsSolutions-IAM5\[Resource::<MemoryDecisions\w+\.Arn>/[\w-]+/\*\]",
        r".*/Role/DefaultPolicy/Resource",
        "The documents of one kind, by the first part of their key: the rest is the name of the execution that wrote "
        "them.",
    ),
    NagSuppression(
        r"AwsSolutions-IAM5\[Resource::<MemoryDecisions\w+\.Arn>/\*\]",
        r"[^/]+/EmptyBucket/Role/DefaultPolicy/Resource",
        "It deletes every object of this bucket, so that CloudFormation can delete the bucket.",
    ),
    NagSuppression(
        rf"AwsSolutions-IAM5\[Resource::arn:[\w<>:-]+:ec2:[\w<>:-]*:[\w<>:-]*:({EC2_KINDS})/\*\]",
        r".*/Role/DefaultPolicy/Resource",
        "Ids that EC2 gives at the launch, or that node classes select. Conditions on tags and owners bound them; "
        "tests/infra/test_permissions.py holds the statements.",
    ),
    NagSuppression(
        rf"AwsSolutions-IAM5\[Resource::arn:[\w<>:-]+:ec2:[\w<>:-]*:\*:({SHARED_KINDS})/\*\]",
        r"[^/]+/ScaleUp/LaunchInstances/Role/DefaultPolicy/Resource",
        "Node classes select these by id or tags. Other accounts can share theirs, so no account is named; EC2 lets an "
        "account use only its own resources and shared ones.",
    ),
    NagSuppression(
        r"AwsSolutions-IAM5\[Resource::arn:[\w<>:-]+:iam::[\w<>:-]*:instance-profile/\*\]",
        r"[^/]+/ScaleUp/ResolveNodeClasses/Role/DefaultPolicy/Resource",
        "Node classes name profiles; the function only reads which role a profile has.",
    ),
    NagSuppression(
        r"AwsSolutions-IAM5\[Resource::arn:[\w<>:-]+:(eks:[\w<>:-]+:access-entry/[\w-]+/(role/[\w<>:/+=,.@-]+/)?\*"
        r"|iam::[\w<>:-]*:instance-profile/joiner/[\w/-]+/\*|iam::[\w<>:-]*:role/\*)\]",
        r"[^/]+/Nodes/KeepNodeAccess/Role/DefaultPolicy/Resource",
        "What earlier deployments made for roles that the settings no longer name. Access entries must carry this "
        "cluster's tag to be removed; profiles lie below this cluster's path; of other roles it only reads which "
        "profiles they have.",
    ),
    NagSuppression(
        r"AwsSolutions-IAM5\[Resource::arn:[\w<>:-]+:eks:[\w<>:-]+:access-entry/[\w-]+/role/[\w<>:-]+/"
        r"<InstallationInstallManifestsRole\w+>/\*\]",
        r"[^/]+/Installation/ElevateInstaller/Role/DefaultPolicy/Resource",
        "The access entry of one role, the installer's; EKS ends the entry's ARN with an id of its own.",
    ),
    NagSuppression(
        r"AwsSolutions-IAM5\[Resource::arn:[\w<>:-]+:ssm:[\w<>:-]*::parameter/aws/service/\*\]",
        r"[^/]+/ScaleUp/ResolveNodeClasses/Role/DefaultPolicy/Resource",
        "Public parameters of AWS with the ids of images; node classes name them.",
    ),
    NagSuppression(
        r"AwsSolutions-IAM5\[Resource::arn:[\w<>:-]+:states:[\w<>:-]*:[\w<>:-]*:execution:"
        r"joiner-(retire|scale-up|disrupt)-[\w-]+:\*\]",
        r"[^/]+/(Sweep/SurveyInstances|Interruption/HandleInterruption)/Role/DefaultPolicy/Resource",
        "Executions of this cluster's own machines, whose names hold the time of their start.",
    ),
    NagSuppression(
        r"AwsSolutions-IAM5\[Resource::\*\]",
        r".*/Role/DefaultPolicy/Resource",
        "Calls that IAM can hold to no resource: EC2's Describe calls, the price list, log delivery of state machines, "
        "network interfaces that Lambda makes in a VPC. tests/infra/test_permissions.py holds the list.",
    ),
)
