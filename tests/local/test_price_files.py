"""The price file of the settings, read from S3 as the deployment stores it."""

import json

import pytest

from joiner.adapters.price_files import read_price_file
from joiner.catalogue.published_prices import PublishedPrices
from tests.local.running_aws import RunningAws

pytestmark = pytest.mark.local


def test_a_stored_price_file_is_read_with_its_date(local_aws: RunningAws) -> None:
    s3, bucket = local_aws.client("s3"), local_aws.fresh("prices")
    s3.create_bucket(Bucket=bucket)
    table = {"region": "us-iso-east-1", "published": "2026-07-20", "prices": {"m5.large": 1, "c5.large": 0.09}}
    s3.put_object(Bucket=bucket, Key="table.json", Body=json.dumps(table).encode())

    assert read_price_file(s3, bucket, "table.json") == PublishedPrices(
        "2026-07-20", {"m5.large": 1.0, "c5.large": 0.09}
    )
