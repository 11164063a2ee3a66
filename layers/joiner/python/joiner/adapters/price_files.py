"""The price table that the settings name: a file that the deployment stores in S3, checked at the synthesis."""

import json
from typing import Any

from joiner.catalogue.published_prices import PublishedPrices


def read_price_file(client: Any, bucket: str, key: str) -> PublishedPrices:
    """Return the table; `client` is one of S3."""
    return PublishedPrices.from_json(json.loads(client.get_object(Bucket=bucket, Key=key)["Body"].read()))
