"""The list of the CloudFormation resource types that the local AWS supports; any other type fails the deployment."""

from joiner_local.aws.cloudformation.resource_types import ResourceType
from joiner_local.aws.cloudformation.resources import (
    api_gateway_resources,
    cloudwatch_resources,
    dynamodb_resources,
    ec2_resources,
    eks_resources,
    eventbridge_resources,
    iam_resources,
    lambda_resources,
    s3_resources,
    scheduler_resources,
    sqs_and_sns_resources,
    ssm_resources,
    step_functions_resources,
)

SUPPORTED_TYPES: tuple[ResourceType, ...] = (
    *eks_resources.TYPES,
    *s3_resources.TYPES,
    *eventbridge_resources.TYPES,
    *lambda_resources.TYPES,
    *api_gateway_resources.TYPES,
    *cloudwatch_resources.TYPES,
    *ssm_resources.TYPES,
    *iam_resources.TYPES,
    *sqs_and_sns_resources.TYPES,
    *scheduler_resources.TYPES,
    *ec2_resources.TYPES,
    *step_functions_resources.TYPES,
    *dynamodb_resources.TYPES,
)
