"""A launch template of a user, whose nodes join the cluster of the local stack."""

import base64

from tests.e2e.agent_nodes import UNREGISTERED, write_node_config
from tests.e2e.stack_actions import Actor
from tests.local.launch_fixtures import IMAGE_PARAMETER

TAG = {"Key": "karpenter.sh/discovery", "Value": "joiner-demo"}
"""The tag that the settings of the local stack allow."""


def create_user_template(actor: Actor, name: str) -> bytes:
    """Create a template with a volume of 33 GiB and the label ``team=ours``; return its user data."""
    ec2 = actor.world.client("ec2")
    described = actor.world.client("eks").describe_cluster(name=TAG["Value"])["cluster"]
    found = ec2.describe_security_groups(Filters=[{"Name": f"tag:{TAG['Key']}", "Values": [TAG["Value"]]}])
    (group,) = found["SecurityGroups"]
    user_data = write_node_config(described, labels="team=ours", taints=[UNREGISTERED])
    content = {
        "ImageId": f"resolve:ssm:{IMAGE_PARAMETER.format('x86_64')}",
        "IamInstanceProfile": {"Name": "KarpenterNodeInstanceProfile-joiner-demo"},
        "SecurityGroupIds": [group["GroupId"]],
        "BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 33, "VolumeType": "gp3"}}],
        "UserData": base64.b64encode(user_data).decode(),
    }
    ec2.create_launch_template(
        LaunchTemplateName=name,
        LaunchTemplateData=content,
        TagSpecifications=[{"ResourceType": "launch-template", "Tags": [TAG]}],
    )
    return user_data
