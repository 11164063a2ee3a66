"""One resource of every type that the local AWS knows, each with properties that our templates use."""

import json
from typing import Any

from tests.local.stack_under_test import att, ref

TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {
                "Service": [
                    "lambda.amazonaws.com",
                    "states.amazonaws.com",
                    "scheduler.amazonaws.com",
                    "ec2.amazonaws.com",
                ]
            },
            "Action": "sts:AssumeRole",
        }
    ],
}
ALLOW = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sqs:*", "Resource": "*"}]}
MACHINE = {"QueryLanguage": "JSONata", "StartAt": "End", "States": {"End": {"Type": "Succeed"}}}


def of(kind: str, **properties: Any) -> dict[str, Any]:
    return {"Type": f"AWS::{kind}", "Properties": properties}


def every_type(*, bucket: str, key: str, cluster: str) -> dict[str, Any]:
    """Return the resources; a layer's zip is at the key in the bucket, access entries are for the cluster."""
    return _RESOURCES | {
        "Layer": of(
            "Lambda::LayerVersion", Content={"S3Bucket": bucket, "S3Key": key}, CompatibleRuntimes=["python3.11"]
        ),
        "Entry": of(
            "EKS::AccessEntry",
            ClusterName=cluster,
            PrincipalArn=att("Role", "Arn"),
            KubernetesGroups=["joiner:viewer"],
            AccessPolicies=[
                {
                    "PolicyArn": "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy",
                    "AccessScope": {"Type": "cluster"},
                },
            ],
        ),
    }


_RESOURCES: dict[str, Any] = {
    "Role": of(
        "IAM::Role",
        AssumeRolePolicyDocument=TRUST,
        Description="a role",
        ManagedPolicyArns=["arn:aws:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole"],
        Policies=[{"PolicyName": "inline", "PolicyDocument": ALLOW}],
        Tags=[{"Key": "owner", "Value": "joiner"}],
    ),
    "Policy": of("IAM::Policy", PolicyName="sends", PolicyDocument=ALLOW, Roles=[ref("Role")]),
    "ManagedPolicy": of("IAM::ManagedPolicy", PolicyDocument=ALLOW, Roles=[ref("Role")]),
    "Profile": of("IAM::InstanceProfile", Roles=[ref("Role")]),
    "Logs": of("Logs::LogGroup", RetentionInDays="14"),
    "Function": of(
        "Lambda::Function",
        Runtime="python3.11",
        Handler="index.handler",
        Role=att("Role", "Arn"),
        Code={"ZipFile": "def handler(event, context): return event"},
        Timeout="7",
        Description="a function",
        Environment={"Variables": {"QUEUE": ref("Queue")}},
        LoggingConfig={"LogGroup": ref("Logs"), "LogFormat": "JSON"},
        EphemeralStorage={"Size": 512},
        ReservedConcurrentExecutions=2,
    ),
    "Version": of("Lambda::Version", FunctionName=ref("Function")),
    "Alias": of(
        "Lambda::Alias",
        FunctionName=ref("Function"),
        FunctionVersion=att("Version", "Version"),
        Name="live",
        Description="an alias",
    ),
    "Permission": of(
        "Lambda::Permission",
        FunctionName=att("Function", "Arn"),
        Action="lambda:InvokeFunction",
        Principal="apigateway.amazonaws.com",
        SourceArn={"Fn::Sub": "arn:aws:execute-api:us-east-1:123456789012:${Api}/*"},
    ),
    "InvokeConfig": of(
        "Lambda::EventInvokeConfig", FunctionName=ref("Function"), Qualifier="$LATEST", MaximumRetryAttempts=0
    ),
    "Mapping": of(
        "Lambda::EventSourceMapping",
        FunctionName=ref("Function"),
        EventSourceArn=att("Queue", "Arn"),
        BatchSize=10,
        FunctionResponseTypes=["ReportBatchItemFailures"],
    ),
    "Queue": of(
        "SQS::Queue",
        VisibilityTimeout=60,
        RedrivePolicy={"maxReceiveCount": 3, "deadLetterTargetArn": att("DeadLetters", "Arn")},
    ),
    "DeadLetters": of("SQS::Queue", MessageRetentionPeriod=1209600, SqsManagedSseEnabled=True),
    "QueuePolicy": of("SQS::QueuePolicy", Queues=[ref("Queue")], PolicyDocument=ALLOW),
    "Topic": of("SNS::Topic", DisplayName="alarms"),
    "TopicPolicy": of("SNS::TopicPolicy", Topics=[ref("Topic")], PolicyDocument=ALLOW),
    "Subscription": of("SNS::Subscription", TopicArn=ref("Topic"), Protocol="sqs", Endpoint=att("DeadLetters", "Arn")),
    "Table": of(
        "DynamoDB::Table",
        KeySchema=[{"AttributeName": "kind", "KeyType": "HASH"}, {"AttributeName": "id", "KeyType": "RANGE"}],
        AttributeDefinitions=[
            {"AttributeName": "kind", "AttributeType": "S"},
            {"AttributeName": "id", "AttributeType": "S"},
        ],
        BillingMode="PAY_PER_REQUEST",
        TimeToLiveSpecification={"AttributeName": "expires", "Enabled": True},
        PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True},
    ),
    "Bucket": of(
        "S3::Bucket",
        BucketEncryption={
            "ServerSideEncryptionConfiguration": [{"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]
        },
        LifecycleConfiguration={
            "Rules": [{"Id": "old", "Status": "Enabled", "Prefix": "snapshots/", "ExpirationInDays": 14}]
        },
        PublicAccessBlockConfiguration={"BlockPublicAcls": True, "RestrictPublicBuckets": True},
        Tags=[{"Key": "owner", "Value": "joiner"}],
    ),
    "BucketPolicy": of("S3::BucketPolicy", Bucket=ref("Bucket"), PolicyDocument=ALLOW),
    "Parameter": of("SSM::Parameter", Type="String", Value=att("Queue", "QueueName"), Description="a parameter"),
    "Rule": of(
        "Events::Rule",
        Description="a rule",
        EventPattern={"source": ["aws.ec2"], "detail-type": ["EC2 Spot Instance Interruption Warning"]},
        Targets=[{"Id": "queue", "Arn": att("Queue", "Arn")}],
    ),
    "Group": of(
        "EC2::SecurityGroup",
        GroupDescription="a group",
        SecurityGroupEgress=[{"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "CidrIp": "0.0.0.0/0"}],
    ),
    "Ingress": of(
        "EC2::SecurityGroupIngress",
        GroupId=att("Group", "GroupId"),
        IpProtocol="tcp",
        FromPort=443,
        ToPort=443,
        CidrIp="10.0.0.0/8",
    ),
    "Egress": of(
        "EC2::SecurityGroupEgress",
        GroupId=att("Group", "GroupId"),
        IpProtocol="udp",
        FromPort=53,
        ToPort=53,
        CidrIp="10.0.0.2/32",
    ),
    "SubscriptionFilter": of(
        "Logs::SubscriptionFilter",
        LogGroupName=ref("Logs"),
        FilterPattern="ERROR",
        DestinationArn=att("Function", "Arn"),
    ),
    "Deployment": of("ApiGatewayV2::Deployment", ApiId=ref("Api")),
    "Alarm": of(
        "CloudWatch::Alarm",
        ComparisonOperator="GreaterThanThreshold",
        EvaluationPeriods="1",
        MetricName="Errors",
        Namespace="Joiner",
        Period=60,
        Statistic="Sum",
        Threshold=1,
        AlarmActions=[ref("Topic")],
    ),
    "MetricFilter": of(
        "Logs::MetricFilter",
        FilterPattern="ERROR",
        LogGroupName=ref("Logs"),
        MetricTransformations=[{"MetricName": "errors", "MetricNamespace": "Joiner", "MetricValue": "1"}],
    ),
    "Dashboard": of("CloudWatch::Dashboard", DashboardBody=json.dumps({"widgets": []})),
    "Machine": of(
        "StepFunctions::StateMachine",
        RoleArn=att("Role", "Arn"),
        StateMachineType="EXPRESS",
        DefinitionString=json.dumps(MACHINE),
        LoggingConfiguration={"Level": "OFF"},
    ),
    "ScheduleGroup": of("Scheduler::ScheduleGroup"),
    "Schedule": of(
        "Scheduler::Schedule",
        GroupName=ref("ScheduleGroup"),
        Description="a schedule",
        FlexibleTimeWindow={"Mode": "OFF"},
        ScheduleExpression="rate(1 minute)",
        State="DISABLED",
        Target={"Arn": ref("Machine"), "RoleArn": att("Role", "Arn"), "RetryPolicy": {"MaximumRetryAttempts": 0}},
    ),
    "Api": of("ApiGatewayV2::Api", Name="every-type", ProtocolType="HTTP", Description="an API"),
    "Integration": of(
        "ApiGatewayV2::Integration",
        ApiId=ref("Api"),
        IntegrationType="AWS_PROXY",
        IntegrationUri=att("Function", "Arn"),
        PayloadFormatVersion="2.0",
    ),
    "Route": of(
        "ApiGatewayV2::Route", ApiId=ref("Api"), RouteKey="POST /x", Target={"Fn::Sub": "integrations/${Integration}"}
    ),
    "Stage": of(
        "ApiGatewayV2::Stage",
        ApiId=ref("Api"),
        StageName="$default",
        AutoDeploy=True,
        RouteSettings={"POST /x": {"ThrottlingRateLimit": 1, "ThrottlingBurstLimit": 2}},
        AccessLogSettings={"DestinationArn": att("Logs", "Arn"), "Format": "$context.requestId"},
    ),
    "Metadata": {"Type": "AWS::CDK::Metadata", "Properties": {"Analytics": "v2"}},
}
_RESOURCES["Stage"]["DependsOn"] = "Route"
