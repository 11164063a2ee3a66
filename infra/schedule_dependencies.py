"""Order of deployment: a schedule exists only after the policy of its role.

A rate schedule fires as soon as it exists. CloudFormation makes the policy of the target's role beside the schedule,
since the schedule refers to the role only; a schedule that fires first is denied, and loses its first run if it is not
retried.
"""

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler


def deploy_after_role_policies(stack: Stack) -> None:
    """Make each schedule of the stack depend on the role of its target, with the role's policies."""
    roles = {str(stack.resolve(each.role_arn)): each for each in stack.node.find_all() if isinstance(each, iam.Role)}
    for schedule in stack.node.find_all():
        if isinstance(schedule, scheduler.CfnSchedule):
            target = stack.resolve(schedule.target)
            schedule.node.add_dependency(roles[str(target["roleArn"])])
