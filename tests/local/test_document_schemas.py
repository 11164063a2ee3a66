"""Documents in the bucket contain their schema number; the error for another schema names the key and both schemas."""

import gzip
import json
from typing import Any

import pytest

from joiner.adapters import documents
from joiner.adapters.documents import CATALOGUE, NoCatalogue
from joiner.adapters.store import DocumentSchema, Store
from joiner.catalogue import Catalogue
from tests.local.running_aws import RunningAws
from tests.unit.functions.small_account import NOON

pytestmark = pytest.mark.local


class Bucket:
    def __init__(self, aws: RunningAws) -> None:
        self.client, self.name = aws.client("s3"), aws.fresh("decisions")
        self.client.create_bucket(Bucket=self.name)
        self.store = Store(self.client, self.name)

    def raw(self, key: str) -> Any:
        return json.loads(gzip.decompress(self.client.get_object(Bucket=self.name, Key=key)["Body"].read()))

    def write(self, key: str, document: Any) -> None:
        self.client.put_object(
            Bucket=self.name, Key=key, Body=gzip.compress(json.dumps(document, separators=(",", ":")).encode())
        )


@pytest.fixture
def bucket(local_aws: RunningAws) -> Bucket:
    return Bucket(local_aws)


@pytest.mark.parametrize(
    ("document", "kept"),
    [
        ({"a": 1}, {"schema": 1, "a": 1}),
        ({}, {"schema": 1}),
        ([1, 2], {"schema": 1, "list": [1, 2]}),
        ([], {"schema": 1, "list": []}),
    ],
)
def test_a_document_is_kept_with_its_schema_and_read_without(bucket: Bucket, document: Any, kept: Any) -> None:
    bucket.store.put("plans/a.json.gz", document)

    assert bucket.raw("plans/a.json.gz") == kept
    assert next(iter(bucket.raw("plans/a.json.gz"))) == "schema"
    assert bucket.store.get("plans/a.json.gz") == document
    assert bucket.store.get_as("plans/a.json.gz", type(document)) in (document, kept)


def test_a_document_without_a_number_is_of_schema_1(bucket: Bucket) -> None:
    bucket.write("plans/a.json.gz", {"a": 1})
    bucket.write("events/a.json.gz", [1, 2])

    assert bucket.store.get("plans/a.json.gz") == {"a": 1}
    assert bucket.store.get_as("events/a.json.gz", list[int]) == [1, 2]


def test_a_document_of_another_schema_is_refused_by_key_found_and_known(bucket: Bucket) -> None:
    bucket.write("plans/a.json.gz", {"schema": 2, "a": 1})

    for read in (
        bucket.store.get,
        lambda key: bucket.store.get_as(key, dict),
        lambda key: bucket.store.get_seldom_changed(key, dict),
    ):
        with pytest.raises(
            DocumentSchema,
            match=r"document plans/a\.json\.gz has schema 2, and this version of "
            r"Joiner reads schema 1",
        ):
            read("plans/a.json.gz")


def test_a_catalogue_of_another_schema_counts_as_none_until_it_is_written_anew(bucket: Bucket) -> None:
    bucket.write(CATALOGUE, {"schema": 2, "types": "unlike ours"})
    with pytest.raises(NoCatalogue, match="has schema 2"):
        documents.get_catalogue(bucket.store)

    documents.put_catalogue(bucket.store, Catalogue.of([]), NOON)

    assert documents.get_catalogue(bucket.store) == Catalogue.of([])
