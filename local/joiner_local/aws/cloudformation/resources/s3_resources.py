"""S3: buckets with their lifecycle rules and policies."""

from collections.abc import Mapping
from typing import Any

from joiner_local.aws.cloudformation.resource_types import (
    CreatedResource,
    DeclaredResource,
    ExistingResource,
    ResourceType,
    ServiceClients,
    calling,
)

ENFORCED_WRONGLY = "moto enforces a Deny but not its Condition (aws:SecureTransport): every request would be refused"


def _create(clients: ServiceClients, declared: DeclaredResource) -> CreatedResource:
    name = declared.name("BucketName", limit=63, lower=True)
    clients.call("s3", "create_bucket", Bucket=name)
    host = f"{name}.s3.amazonaws.com"
    return CreatedResource(
        name,
        {"Arn": f"arn:aws:s3:::{name}", "DomainName": host, "RegionalDomainName": f"{name}.s3.us-east-1.amazonaws.com"},
    )


def _configure(clients: ServiceClients, existing: ExistingResource) -> None:
    bucket, properties = existing.physical_id, existing.properties
    if "BucketEncryption" in properties:
        rules = [
            {
                key.replace("ServerSideEncryptionByDefault", "ApplyServerSideEncryptionByDefault"): value
                for key, value in rule.items()
            }
            for rule in properties["BucketEncryption"]["ServerSideEncryptionConfiguration"]
        ]
        clients.call("s3", "put_bucket_encryption", Bucket=bucket, ServerSideEncryptionConfiguration={"Rules": rules})
    if "PublicAccessBlockConfiguration" in properties:
        block = properties["PublicAccessBlockConfiguration"]
        clients.call("s3", "put_public_access_block", Bucket=bucket, PublicAccessBlockConfiguration=block)
    if "VersioningConfiguration" in properties:
        clients.call(
            "s3", "put_bucket_versioning", Bucket=bucket, VersioningConfiguration=properties["VersioningConfiguration"]
        )
    if "OwnershipControls" in properties:
        clients.call(
            "s3", "put_bucket_ownership_controls", Bucket=bucket, OwnershipControls=properties["OwnershipControls"]
        )
    if "LifecycleConfiguration" in properties:
        lifecycle = {"Rules": [lifecycle_rule(rule) for rule in properties["LifecycleConfiguration"]["Rules"]]}
        clients.call("s3", "put_bucket_lifecycle_configuration", Bucket=bucket, LifecycleConfiguration=lifecycle)
    if existing.declared.tags:
        clients.call("s3", "put_bucket_tagging", Bucket=bucket, Tagging={"TagSet": existing.declared.tag_list})


def lifecycle_rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rule of a template as the API spells it.

    >>> lifecycle_rule({"Status": "Enabled", "Prefix": "snapshots/", "ExpirationInDays": 14})
    {'Status': 'Enabled', 'Filter': {'Prefix': 'snapshots/'}, 'Expiration': {'Days': 14}}
    """
    made: dict[str, Any] = {key: rule[key] for key in ("Id", "Status") if key in rule}
    if "Id" in made:
        made["ID"] = made.pop("Id")
    made["Filter"] = {"Prefix": rule.get("Prefix", "")}
    if "ExpirationInDays" in rule:
        made["Expiration"] = {"Days": int(rule["ExpirationInDays"])}
    if "NoncurrentVersionExpiration" in rule:
        made["NoncurrentVersionExpiration"] = {
            "NoncurrentDays": int(rule["NoncurrentVersionExpiration"]["NoncurrentDays"])
        }
    if "AbortIncompleteMultipartUpload" in rule:
        made["AbortIncompleteMultipartUpload"] = {
            "DaysAfterInitiation": int(rule["AbortIncompleteMultipartUpload"]["DaysAfterInitiation"])
        }
    return made


def _existing_bucket(clients: ServiceClients, declared: DeclaredResource) -> CreatedResource:
    clients.call("s3", "head_bucket", Bucket=declared.properties["Bucket"])
    return CreatedResource(declared.properties["Bucket"])


RULE = "LifecycleConfiguration.Rules."

TYPES = (
    ResourceType(
        name="AWS::S3::Bucket",
        honoured="BucketEncryption BucketName OwnershipControls PublicAccessBlockConfiguration Tags "
        "VersioningConfiguration"
        f" {RULE}Id {RULE}Status {RULE}Prefix {RULE}ExpirationInDays {RULE}NoncurrentVersionExpiration.NoncurrentDays"
        f" {RULE}AbortIncompleteMultipartUpload.DaysAfterInitiation",
        attributes="Arn DomainName RegionalDomainName",
        immutable="BucketName",
        named_by="BucketName",
        create=_create,
        configure=_configure,
        delete=calling("s3", "delete_bucket", "Bucket"),
    ),
    ResourceType(
        name="AWS::S3::BucketPolicy",
        honoured="Bucket",
        ignored={"PolicyDocument": ENFORCED_WRONGLY},
        create=_existing_bucket,
        delete=lambda _clients, _existing: None,
    ),
)
