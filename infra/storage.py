"""Storage of Joiner: one DynamoDB table (lease, launches, assignments, waves) and one bucket (snapshots, plans, the
catalogue).

The kind of an item is the partition key of the table, so that IAM can limit a role to kinds of items
(`dynamodb:LeadingKeys`). The kind of a document is the first part of its key in the bucket, for the same reason.
"""

from typing import Final

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from infra.function_configuration import FunctionConfiguration
from infra.settings import Settings

EXPIRING_PREFIXES: Final = (
    "instances/",
    "snapshots/",
    "node-classes/",
    "plans/",
    "launches/",
    "validations/",
    "surveys/",
    "consoles/",
    "events/",
    "decisions/",
    "catalogue/2",
)
"""Documents of one execution, and dated catalogues (`catalogue/2026-11-21...`). They expire with the logs that refer to
them. The latest catalogue, the pod events of the last sweep, the observed memory of nodes, the hours of spot nodes
and the free addresses of subnets do not expire."""

AWAITED_DOCUMENTS: Final = ("catalogue", "free-addresses", "observed-memory", "pod-events", "spot-hours")
"""Documents that a function may ask for before they exist: a missing catalogue is `NoCatalogue`, which the state
machine retries; without pod events no pod has moved yet, without observed memory no node has joined yet, without spot
hours none was a spot node, and without free addresses no sweep has resolved the node classes yet. Every other document
was written by the execution that asks for it, and is an error if it is missing."""

GET_ACTIONS: Final = ("dynamodb:GetItem",)
GET_IN_BATCHES_ACTIONS: Final = ("dynamodb:BatchGetItem",)
QUERY_ACTIONS: Final = ("dynamodb:Query",)
UPDATE_ACTIONS: Final = ("dynamodb:UpdateItem",)
PUT_ACTIONS: Final = ("dynamodb:PutItem",)
CONDITION_CHECK_ACTIONS: Final = ("dynamodb:ConditionCheckItem",)
DELETE_ACTIONS: Final = ("dynamodb:DeleteItem",)


class Storage(Construct):
    """The table and the bucket."""

    def __init__(self, scope: Construct, id: str, *, settings: Settings) -> None:
        super().__init__(scope, id)
        removal = RemovalPolicy.RETAIN if settings.retain_data else RemovalPolicy.DESTROY
        self.table = dynamodb.Table(
            self,
            "Table",
            partition_key=dynamodb.Attribute(name="kind", type=dynamodb.AttributeType.STRING),
            sort_key=dynamodb.Attribute(name="id", type=dynamodb.AttributeType.STRING),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            time_to_live_attribute="expires",
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            deletion_protection=settings.deletion_protection,
            removal_policy=removal,
        )
        self.bucket = self._create_bucket(settings, removal)

    def _create_bucket(self, settings: Settings, removal: RemovalPolicy) -> s3.Bucket:
        bucket = s3.Bucket(
            self,
            "Decisions",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            lifecycle_rules=[
                s3.LifecycleRule(
                    prefix=prefix,
                    expiration=Duration.days(settings.logs.retention_days),
                    abort_incomplete_multipart_upload_after=Duration.days(1),
                )
                for prefix in EXPIRING_PREFIXES
            ],
            removal_policy=removal,
        )
        if settings.deletion_protection:
            bucket.add_to_resource_policy(
                iam.PolicyStatement(
                    sid="DeletionProtection",
                    effect=iam.Effect.DENY,
                    principals=[iam.AnyPrincipal()],
                    actions=["s3:DeleteBucket"],
                    resources=[bucket.bucket_arn],
                )
            )
        return bucket

    def grant(self, role: iam.IGrantable, configuration: FunctionConfiguration) -> None:
        """Grant a role the kinds of items and documents of its function's configuration, and no others."""
        for actions, kinds in (
            (GET_ACTIONS, configuration.all_gets_items),
            (GET_IN_BATCHES_ACTIONS, configuration.gets_items_in_batches),
            (QUERY_ACTIONS, configuration.queries_items),
            (UPDATE_ACTIONS, configuration.updates_items),
            (PUT_ACTIONS, configuration.puts_items),
            (CONDITION_CHECK_ACTIONS, configuration.checks_items),
            (DELETE_ACTIONS, configuration.deletes_items),
        ):
            if kinds:
                self._grant_items(role, actions, kinds)
        if configuration.reads_documents:
            self._grant_documents(role, "s3:GetObject", configuration.reads_documents)
        if awaited := [kind for kind in configuration.reads_documents if kind in AWAITED_DOCUMENTS]:
            # Without it S3 answers 403 for a missing document instead of 404. The key s3:prefix is of requests that
            # list, not of GetObject.
            role.grant_principal.add_to_principal_policy(
                iam.PolicyStatement(
                    actions=["s3:ListBucket"],
                    resources=[self.bucket.bucket_arn],
                    conditions={"StringLikeIfExists": {"s3:prefix": [f"{kind}/*" for kind in awaited]}},
                )
            )
        if configuration.writes_documents:
            self._grant_documents(role, "s3:PutObject", configuration.writes_documents)

    def grant_updates(self, role: iam.IGrantable, *kinds: str) -> None:
        """Grant the role of a state machine updates of these kinds of items."""
        self._grant_items(role, UPDATE_ACTIONS, kinds)

    def _grant_items(self, role: iam.IGrantable, actions: tuple[str, ...], kinds: tuple[str, ...]) -> None:
        role.grant_principal.add_to_principal_policy(
            iam.PolicyStatement(
                actions=list(actions),
                resources=[self.table.table_arn],
                conditions={"ForAllValues:StringEquals": {"dynamodb:LeadingKeys": sorted(kinds)}},
            )
        )

    def _grant_documents(self, role: iam.IGrantable, action: str, kinds: tuple[str, ...]) -> None:
        role.grant_principal.add_to_principal_policy(
            iam.PolicyStatement(
                actions=[action], resources=[self.bucket.arn_for_objects(f"{kind}/*") for kind in sorted(kinds)]
            )
        )
