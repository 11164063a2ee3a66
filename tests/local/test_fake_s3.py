"""The fake bucket of the tests of functions answers the store as the local AWS does."""

import pytest
from botocore.exceptions import ClientError

from joiner.adapters.store import NoSuchDocument, Store
from tests.local.running_aws import RunningAws
from tests.unit.functions.fake_s3 import FakeS3

pytestmark = pytest.mark.local


@pytest.fixture(params=["the local AWS", "the fake of tests of functions"])
def store(request: pytest.FixtureRequest, local_aws: RunningAws) -> Store:
    name = local_aws.fresh("documents")
    if request.param != "the local AWS":
        return Store(FakeS3(name), name)
    client = local_aws.client("s3")
    client.create_bucket(Bucket=name)
    return Store(client, name)


def test_a_document_is_read_as_it_was_last_written(store: Store) -> None:
    store.put("plans/1.json.gz", {"nodes": 1})
    store.put("plans/1.json.gz", {"nodes": 2})

    assert store.get("plans/1.json.gz") == {"nodes": 2}


def test_a_missing_document_is_missing(store: Store) -> None:
    store.put("plans/1.json.gz", {})

    with pytest.raises(NoSuchDocument):
        store.get("plans/2.json.gz")


def test_a_document_is_decoded_again_only_if_it_changed(store: Store) -> None:
    decoded: list[dict[str, int]] = []

    def read(document: dict[str, int]) -> dict[str, int]:
        decoded.append(document)
        return document

    for prices in (1, 1, 2):
        store.put("prices.json.gz", {"prices": prices})
        assert store.get_seldom_changed("prices.json.gz", read) == {"prices": prices}
    assert decoded == [{"prices": 1}, {"prices": 2}]


def test_another_bucket_is_an_error(store: Store) -> None:
    with pytest.raises(ClientError) as refused:
        Store(store._client, "no-such-bucket").put("plans/1.json.gz", {})
    assert refused.value.response["Error"]["Code"] == "NoSuchBucket"
