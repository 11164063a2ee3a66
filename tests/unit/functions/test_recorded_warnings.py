"""From a Spot interruption warning, and from the nodes of a sweep, to the price of interruptions in the catalogue."""

from dataclasses import replace
from datetime import timedelta

import pytest
from botocore.exceptions import ClientError

from functions.refresh_catalogue.handler import InterruptionPrices
from functions.survey_cluster.spot_hours_record import record_spot_hours
from joiner import names
from joiner.adapters import documents
from joiner.adapters.interruption_records import InterruptionWarnings
from joiner.adapters.spot_history import SPOT_HOURS, get_spot_hours
from joiner.adapters.store import NoSuchDocument
from joiner.catalogue.interruption_history import DAY, Interruptions, SpotHours
from joiner.cluster import Node
from joiner.lifecycle.checks.cluster_survey import ClusterSurvey
from joiner.pools.codecs.node_claim_manifests import read_node_claim
from tests.unit.functions.delivered_interruptions import MINE, NOW, QueueRun
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.test_refresh_catalogue import FakeRegion, refresh
from tests.unit.planning.test_in_flight import claim

WARNING = {
    "source": "aws.ec2",
    "detail-type": "EC2 Spot Instance Interruption Warning",
    "detail": {"instance-id": MINE, "instance-action": "terminate"},
}
TODAY = int(NOW.timestamp()) // DAY * DAY


def warnings_of(cluster: SimulatedCluster) -> InterruptionWarnings:
    return InterruptionWarnings(cluster.ledger._client, cluster.ledger._table)


def test_a_warning_that_is_delivered_twice_counts_once(cluster: SimulatedCluster) -> None:
    run = QueueRun(cluster)

    assert run.deliver(WARNING, WARNING) == []
    assert run.deliver(WARNING) == []

    assert warnings_of(cluster).all() == [Interruptions("m5.large", "us-east-1a", TODAY, 1)]


def test_the_warning_of_an_on_demand_instance_is_no_interruption_of_spot(cluster: SimulatedCluster) -> None:
    run = QueueRun(cluster)
    del cluster.ec2.instances[MINE]["InstanceLifecycle"]

    run.deliver(WARNING)

    assert warnings_of(cluster).all() == []


def test_warnings_that_cannot_be_recorded_do_not_hold_up_the_message(cluster: SimulatedCluster) -> None:
    run = QueueRun(cluster)

    class Broken(InterruptionWarnings):
        def note(self, *_asked: object) -> None:
            raise ClientError({"Error": {"Code": "InternalServerError", "Message": ""}}, "UpdateItem")

    run.handler._warnings = Broken(cluster.ledger._client, cluster.ledger._table)

    assert run.deliver(WARNING) == []
    assert [mark.offering.instance_type for mark in cluster.ledger.unavailable(int(NOW.timestamp()))] == ["m5.large"]


def test_a_record_that_cannot_be_read_is_left_out_and_named(cluster: SimulatedCluster) -> None:
    warnings = warnings_of(cluster)
    warnings.note({("m5.large", "us-east-1a"): {"i-1", "i-2"}, ("c5.large", "us-east-1a"): {"i-3"}}, TODAY)
    broken = {"kind": {"S": "INTERRUPTED"}, "id": {"S": "yesterday"}}
    cluster.ledger._client.put_item(TableName=cluster.ledger._table, Item=broken)

    assert {one.instance_type: one.count for one in warnings.all()} == {"m5.large": 2, "c5.large": 1}
    assert [one.id for one in warnings.unreadable] == ["yesterday"]


def test_a_refresh_prices_the_spot_offerings_that_were_interrupted(cluster: SimulatedCluster) -> None:
    warnings = warnings_of(cluster)
    region = FakeRegion("eu-west-1a")
    region.quote("0.03")
    calm = refresh(cluster.store, region, interruptions=InterruptionPrices(warnings, 0.5))
    before = documents.get_catalogue(cluster.store)
    warnings.note({("m5.large", "eu-west-1a"): {"i-1", "i-2"}}, int((NOW + timedelta(days=2)).timestamp()))

    warned = refresh(cluster.store, region, interruptions=InterruptionPrices(warnings, 0.5))
    on_demand, spot = documents.get_catalogue(cluster.store).types["m5.large"].offerings
    refresh(cluster.store, region)

    assert (calm["interrupted"], warned["interrupted"]) == (0, 1)
    assert (on_demand.interruptions, spot.price_per_hour) == (0.0, 0.03)
    assert 0.0009 < spot.interruptions < 2 / 100 * 0.5 * 0.096
    assert documents.get_catalogue(cluster.store) == before  # without the setting


def survey(minute: int, *capacity_types: str) -> ClusterSurvey:
    """Return a sweep's view of registered nodes with these capacity types, and of a node that is not Joiner's."""
    numbered = [(f"aws:///us-east-1a/i-{number}", each) for number, each in enumerate(capacity_types)]
    place = {names.INSTANCE_TYPE: "m5.large", names.ZONE: "us-east-1a"}
    nodes = [
        Node(where, labels={**place, names.CAPACITY_TYPE: each}, provider_id=where)
        for where, each in (*numbered, ("aws:///us-east-1a/i-foreign", "spot"))
    ]
    own = read_node_claim(claim())
    claims = [replace(own, name=where, provider_id=where) for where, _ in numbered]
    return ClusterSurvey(now=NOW + timedelta(minutes=minute), nodes=tuple(nodes), claims=tuple(claims))


def test_the_spot_nodes_of_two_hours_of_sweeps_become_node_hours(cluster: SimulatedCluster) -> None:
    for minute in range(121):
        record_spot_hours(survey(minute, "spot", "spot", "spot", "on-demand"), cluster.store)

    found = get_spot_hours(cluster.store)
    assert found.at == int(NOW.timestamp()) + 7200
    assert found.of(("m5.large", "us-east-1a"), found.at) == pytest.approx(6, abs=0.02)  # the first hours fade a little


def test_a_cluster_without_spot_nodes_stores_no_node_hours(cluster: SimulatedCluster) -> None:
    record_spot_hours(survey(0, "on-demand"), cluster.store)

    with pytest.raises(NoSuchDocument):
        cluster.store.get(SPOT_HOURS)


def test_node_hours_that_cannot_be_read_begin_anew(cluster: SimulatedCluster) -> None:
    cluster.store.put(SPOT_HOURS, {"hours": 7})
    assert get_spot_hours(cluster.store) == SpotHours()

    record_spot_hours(survey(0, "spot"), cluster.store)
    assert get_spot_hours(cluster.store) == SpotHours({}, int(NOW.timestamp()))
