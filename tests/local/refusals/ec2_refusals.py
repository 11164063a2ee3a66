"""EC2 apart from launches, and the price list: describe calls for instances, types and images, and terminations."""

from typing import Final

from tests.local.refusals.refused_calls import not_modelled, nothing_known, refuses
from tests.local.running_aws import RunningAws

EC2: Final = "ec2"
FILTERS: Final = "EC2 API reference, Filter"
ERRORS: Final = "EC2 API reference, Error codes"


@refuses(EC2, "DescribeInstances", "an instance that does not exist", code="InvalidInstanceID.NotFound", source=ERRORS)
def an_instance_that_does_not_exist(aws: RunningAws) -> None:
    aws.client(EC2).describe_instances(InstanceIds=["i-0123456789abcdef0"])


@refuses(EC2, "DescribeInstances", "an id that is none", code="InvalidInstanceID.Malformed", source=ERRORS)
def an_id_that_is_none(aws: RunningAws) -> None:
    aws.client(EC2).describe_instances(InstanceIds=["node-1"])


@refuses(EC2, "DescribeInstances", "201 values of filters", code="FilterLimitExceeded", source=FILTERS)
def more_than_200_values(aws: RunningAws) -> None:
    ids = [f"i-{number:017x}" for number in range(201)]
    aws.client(EC2).describe_instances(Filters=[{"Name": "instance-id", "Values": ids}])


@refuses(
    EC2,
    "DescribeInstances",
    "pages of named instances",
    code="InvalidParameterCombination",
    source="EC2 API reference, DescribeInstances",
)
def pages_of_named_instances(aws: RunningAws) -> None:
    aws.client(EC2).describe_instances(InstanceIds=["i-0123456789abcdef0"], MaxResults=5)


@refuses(
    EC2,
    "DescribeInstances",
    "pages of four",
    code="InvalidParameterValue",
    source="EC2 API reference, DescribeInstances",
)
def pages_of_four(aws: RunningAws) -> None:
    aws.client(EC2).describe_instances(MaxResults=4)


RESERVED: Final = "EC2 API reference, DescribeReservedInstances"


@refuses(
    EC2, "DescribeReservedInstances", "an id that does not exist", code="InvalidReservedInstancesId", source=ERRORS
)
def reserved_instances_that_do_not_exist(aws: RunningAws) -> None:
    aws.client(EC2).describe_reserved_instances(ReservedInstancesIds=["b847fa93-e282-4f55-b59a-1342fexample"])


@refuses(EC2, "DescribeReservedInstances", "a filter that is none", code="InvalidParameterValue", source=RESERVED)
def a_filter_of_reserved_instances_that_is_none(aws: RunningAws) -> None:
    aws.client(EC2).describe_reserved_instances(Filters=[{"Name": "colour", "Values": ["red"]}])


SCORES: Final = "EC2 API reference, GetSpotPlacementScores"


@refuses(
    EC2,
    "GetSpotPlacementScores",
    "types and requirements at once",
    code="InvalidParameterCombination",
    source=SCORES,
)
def scores_of_types_and_of_requirements(aws: RunningAws) -> None:
    aws.client(EC2).get_spot_placement_scores(
        InstanceTypes=["m5.large", "m5.xlarge", "m5.2xlarge"],
        TargetCapacity=1,
        InstanceRequirementsWithMetadata={"VirtualizationTypes": ["hvm"]},
    )


@refuses(EC2, "DescribeAvailabilityZones", "a zone that does not exist", code="InvalidParameterValue", source=ERRORS)
def a_zone_that_does_not_exist(aws: RunningAws) -> None:
    aws.client(EC2).describe_availability_zones(ZoneNames=["us-east-1q"])


PLANS: Final = "Savings Plans API reference"


@refuses("savingsplans", "DescribeSavingsPlans", "pages of 1,001", code="ValidationException", source=PLANS)
def pages_of_1001_savings_plans(aws: RunningAws) -> None:
    aws.client("savingsplans").describe_savings_plans(maxResults=1001)


@refuses("savingsplans", "DescribeSavingsPlans", "a state that is none", code="ValidationException", source=PLANS)
def savings_plans_in_no_state(aws: RunningAws) -> None:
    aws.client("savingsplans").describe_savings_plans(states=["bought"])


@refuses(
    "savingsplans",
    "DescribeSavingsPlanRates",
    "a plan that does not exist",
    code="ResourceNotFoundException",
    source=PLANS,
)
def rates_of_no_savings_plan(aws: RunningAws) -> None:
    aws.client("savingsplans").describe_savings_plan_rates(savingsPlanId="b847fa93-e282-4f55-b59a-1342f0e0e0e0")


STATUS: Final = "EC2 API reference, DescribeInstanceStatus"


@refuses(EC2, "DescribeInstanceStatus", "a filter that is none", code="InvalidParameterValue", source=FILTERS)
def a_filter_of_statuses_that_is_none(aws: RunningAws) -> None:
    aws.client(EC2).describe_instance_status(Filters=[{"Name": "tag:Name", "Values": ["web"]}])


@refuses(EC2, "DescribeInstanceStatus", "101 named instances", code="InvalidParameterValue", source=STATUS)
def the_status_of_101_named_instances(aws: RunningAws) -> None:
    aws.client(EC2).describe_instance_status(InstanceIds=[f"i-{number:017x}" for number in range(101)])


@refuses(EC2, "DescribeInstanceStatus", "pages of named instances", code="InvalidParameterCombination", source=STATUS)
def pages_of_statuses_of_named_instances(aws: RunningAws) -> None:
    aws.client(EC2).describe_instance_status(InstanceIds=["i-0123456789abcdef0"], MaxResults=5)


CONSOLE: Final = "EC2 API reference, GetConsoleOutput"


@refuses(EC2, "GetConsoleOutput", "an instance that does not exist", code="InvalidInstanceID.NotFound", source=CONSOLE)
def the_console_of_no_instance(aws: RunningAws) -> None:
    aws.client(EC2).get_console_output(InstanceId="i-0123456789abcdef0")


@refuses(EC2, "DescribeSubnets", "a filter that is none", code="InvalidParameterValue", source=FILTERS)
def a_filter_of_subnets_that_is_none(aws: RunningAws) -> None:
    aws.client(EC2).describe_subnets(Filters=[{"Name": "colour", "Values": ["red"]}])


@refuses(EC2, "DescribeSecurityGroups", "a filter that is none", code="InvalidParameterValue", source=FILTERS)
def a_filter_of_groups_that_is_none(aws: RunningAws) -> None:
    aws.client(EC2).describe_security_groups(Filters=[{"Name": "colour", "Values": ["red"]}])


@refuses(EC2, "DescribeImages", "a filter that is none", code="InvalidParameterValue", source=FILTERS)
def a_filter_of_images_that_is_none(aws: RunningAws) -> None:
    aws.client(EC2).describe_images(Filters=[{"Name": "colour", "Values": ["red"]}])


@refuses(EC2, "DescribeInstanceTypes", "a type that does not exist", code="InvalidInstanceType", source=ERRORS)
def a_type_that_does_not_exist(aws: RunningAws) -> None:
    aws.client(EC2).describe_instance_types(InstanceTypes=["z99.huge"])


@refuses(
    EC2,
    "DescribeLaunchTemplateVersions",
    "a template that does not exist",
    code="InvalidLaunchTemplateName.NotFoundException",
    source=ERRORS,
)
def a_template_that_does_not_exist(aws: RunningAws) -> None:
    aws.client(EC2).describe_launch_template_versions(LaunchTemplateName="nowhere", Versions=["1"])


@refuses(
    EC2,
    "DescribeLaunchTemplates",
    "a template that does not exist",
    code="InvalidLaunchTemplateName.NotFoundException",
    source=ERRORS,
)
def the_description_of_a_template_that_does_not_exist(aws: RunningAws) -> None:
    aws.client(EC2).describe_launch_templates(LaunchTemplateNames=["nowhere"])


@refuses(
    EC2,
    "DeleteLaunchTemplate",
    "a template that does not exist",
    code="InvalidLaunchTemplateId.NotFound",
    source=ERRORS,
)
def the_end_of_a_template_that_does_not_exist(aws: RunningAws) -> None:
    aws.client(EC2).delete_launch_template(LaunchTemplateId="lt-0123456789abcdef0")


@refuses(EC2, "TerminateInstances", "an instance that does not exist", code="InvalidInstanceID.NotFound", source=ERRORS)
def the_end_of_an_instance_that_does_not_exist(aws: RunningAws) -> None:
    aws.client(EC2).terminate_instances(InstanceIds=["i-0123456789abcdef0"])


@refuses(EC2, "TerminateInstances", "an id that is none", code="InvalidInstanceID.Malformed", source=ERRORS)
def the_end_of_an_id_that_is_none(aws: RunningAws) -> None:
    aws.client(EC2).terminate_instances(InstanceIds=["node-1"])


@refuses(
    EC2,
    "TerminateInstances",
    "1,001 instances",
    code="InvalidParameterValue",
    source="EC2 API reference, TerminateInstances",
)
def the_end_of_too_many(aws: RunningAws) -> None:
    aws.client(EC2).terminate_instances(InstanceIds=[f"i-{number:017x}" for number in range(1001)])


@refuses(
    EC2, "TerminateInstances", "an instance with termination protection", code="OperationNotPermitted", source=ERRORS
)
def the_end_of_a_protected_instance(aws: RunningAws) -> None:
    ec2 = aws.client(EC2)
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    made = ec2.run_instances(ImageId=image, InstanceType="m5.large", MinCount=1, MaxCount=1)
    ids = [made["Instances"][0]["InstanceId"]]
    ec2.modify_instance_attribute(InstanceId=ids[0], DisableApiTermination={"Value": True})
    try:
        ec2.terminate_instances(InstanceIds=ids)
    finally:
        ec2.modify_instance_attribute(InstanceId=ids[0], DisableApiTermination={"Value": False})
        ec2.terminate_instances(InstanceIds=ids)


not_modelled(
    EC2,
    "DescribeInstances",
    "more calls than the token bucket holds (100, 20 a second; unpaginated and unfiltered: 50, 10)",
    code="RequestLimitExceeded",
    source="EC2 developer guide, Request throttling for the EC2 API",
    why="time passes faster here than on AWS; `joiner local knob ec2/request-limits '{\"on\": true}'` makes EC2 refuse "
    "such requests, of all actions",
)
not_modelled(
    EC2,
    "DescribeInstances",
    "an instance that was launched seconds ago",
    code="InvalidInstanceID.NotFound",
    source="EC2 developer guide, Eventual consistency",
    why="answers are consistent unless the knob of the tests of launches changes that",
)
nothing_known(
    EC2,
    "DescribeInstanceTypeOfferings",
    "DescribeSpotPriceHistory",
    why="they are asked for all of a region, by pages, with filters of EC2's documentation",
)
nothing_known(
    "pricing",
    "GetProducts",
    why="it is asked at an endpoint of its own regions with fixed filters; throttling is the only refusal documented",
)


@refuses(
    EC2,
    "TerminateInstances",
    "one instance with termination protection among others of its zone",
    code="OperationNotPermitted",
    source="EC2 API reference, TerminateInstances",
)
def the_end_of_a_protected_instance_among_others(aws: RunningAws) -> None:
    ec2 = aws.client(EC2)
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    made = ec2.run_instances(ImageId=image, InstanceType="m5.large", MinCount=3, MaxCount=3)
    ids = [each["InstanceId"] for each in made["Instances"]]
    ec2.modify_instance_attribute(InstanceId=ids[1], DisableApiTermination={"Value": True})
    try:
        ec2.terminate_instances(InstanceIds=ids)
    finally:
        ec2.modify_instance_attribute(InstanceId=ids[1], DisableApiTermination={"Value": False})
        ec2.terminate_instances(InstanceIds=ids)
