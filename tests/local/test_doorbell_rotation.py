"""The doorbell's secret is replaced while the API server rings: no step refuses the secret that the webhook uses."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from joiner.adapters.doorbell_rotation import PREVIOUS_VALID, DoorbellRotation
from joiner.adapters.ledger import Ledger
from tests.local.running_aws import RunningAws

pytestmark = pytest.mark.local

NOW = datetime(2026, 11, 21, 5, 17, 28, tzinfo=UTC)


class Doorbell:
    """A table, as the installer and as the doorbell use it."""

    def __init__(self, aws: RunningAws) -> None:
        client, name = aws.client("dynamodb"), aws.table()
        self.rotation = DoorbellRotation(client, name)
        self.ledger = Ledger(client, name)

    def install(self, fresh: str, now: datetime) -> str:
        begun = self.rotation.begin(fresh)
        self.rotation.finish(begun, now)
        return begun.following

    def accepts(self, *tokens: str, now: datetime = NOW) -> bool:
        secrets = self.ledger.doorbell_secrets()
        return all(secrets.accept(token, now) for token in tokens)


@pytest.fixture
def doorbell(local_aws: RunningAws) -> Iterator[Doorbell]:
    yield Doorbell(local_aws)


def test_the_first_installation_makes_a_secret_and_has_no_previous_one(doorbell: Doorbell) -> None:
    assert doorbell.install("first", NOW) == "first"

    assert doorbell.accepts("first")
    assert not doorbell.accepts("")


def test_both_secrets_are_valid_while_the_webhook_is_changed(doorbell: Doorbell) -> None:
    doorbell.install("first", NOW)
    begun = doorbell.rotation.begin("second")

    assert begun.following == "second"
    assert doorbell.accepts("first", "second", now=NOW + timedelta(days=1))  # however long the installation takes


def test_the_previous_secret_ends_a_while_after_the_webhook_has_the_new_one(doorbell: Doorbell) -> None:
    doorbell.install("first", NOW)
    doorbell.install("second", NOW + timedelta(days=1))
    replaced = NOW + timedelta(days=1)

    assert doorbell.accepts("first", "second", now=replaced + PREVIOUS_VALID - timedelta(seconds=1))
    assert not doorbell.accepts("first", now=replaced + PREVIOUS_VALID)
    assert doorbell.accepts("second", now=replaced + PREVIOUS_VALID)


def test_an_installation_that_died_leaves_both_valid_and_the_next_goes_on(doorbell: Doorbell) -> None:
    doorbell.install("first", NOW)
    doorbell.rotation.begin("second")  # and failed: it is unknown whether the webhook has it

    assert doorbell.install("third", NOW + timedelta(hours=1)) == "second"
    assert doorbell.accepts("first", "second", now=NOW + timedelta(hours=1))
    assert not doorbell.accepts("third", now=NOW + timedelta(hours=1))


def test_finishing_twice_is_finishing_once(doorbell: Doorbell) -> None:
    doorbell.install("first", NOW)
    begun = doorbell.rotation.begin("second")
    doorbell.rotation.finish(begun, NOW)
    doorbell.rotation.finish(begun, NOW)  # a response was lost, and botocore sent the request again

    assert doorbell.accepts("first", "second")
