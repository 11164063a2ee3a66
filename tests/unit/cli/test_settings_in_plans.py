"""Every setting of a cluster is used by plans from files, or noted, or does not concern plans."""

import dataclasses
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest

from infra.settings import Settings
from infra.settings_reader import camel_case
from joiner_cli.manifests import UnreadableInput
from joiner_cli.settings_limits import SettingsLimits, describe_unchecked, read_limits

RESERVED = {"instanceType": "m5.large", "count": 2}
SPREAD = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
KEY = "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"

USED: Mapping[str, Any] = {
    "cluster": "other",
    "region": "eu-west-1",
    "account": "999999999999",
    "nodeRoles.names": ["nodes"],
    "nodeRoles.windowsNames": ["nodes"],
    "nodeRoles.manageNodeAccessEntry": False,
    "ceilings.nodes": 3,
    "ceilings.pricePerHour": 1,
    "nodes.memoryOverheadPercent": 5,
    "nodes.reservedInterfaces": 1,
    "planning.nodeOverheadPricePerHour": 0.5,
    "planning.interruptionLostHours": 0,
    "planning.fewerNodesTolerancePercent": 3,
    "planning.zoneSpreadTolerancePercent": 3,
    "planning.preferencePolicy": "Ignore",
    "planning.minValuesPolicy": "BestEffort",
    "planning.defaultTopologySpreadConstraints": [SPREAD],
    "commitments.reservedInstances": [RESERVED],
    "commitments.savingsPlans": [{"pricePerHour": 1, "discountPercent": 20}],
    "prices.file": "prices.json",
    "imageOwners": ["amazon"],
    "nodeClasses.subnets.ids": ["subnet-0123456789abcdef0"],
    "nodeClasses.subnets.tags": {"a": "b"},
    "nodeClasses.securityGroups.ids": ["sg-0123456789abcdef0"],
    "nodeClasses.securityGroups.tags": {"a": "b"},
    "nodeClasses.snapshots.owners": ["self"],
    "nodeClasses.snapshots.ids": ["snap-0123456789abcdef0"],
    "nodeClasses.snapshots.tags": {"a": "b"},
    "nodeClasses.kmsKeys": [KEY],
    "nodeClasses.capacityReservations.ids": ["cr-0123456789abcdef0"],
    "nodeClasses.capacityReservations.tags": {"a": "b"},
    "nodeClasses.placementGroups.names": ["near"],
    "nodeClasses.placementGroups.tags": {"a": "b"},
    "nodeClasses.launchTemplates.ids": ["lt-0123456789abcdef0"],
    "nodeClasses.launchTemplates.tags": {"a": "b"},
}
"""Settings that decide what a plan has, each with another value than the default: what is read of it differs."""

NOTED: Mapping[str, Any] = {
    "commitments.fromAccount": True,
    "planning.interruptionLostHours": 2,
    "planning.spotPlacementScores": True,
}
"""Settings whose effect on plans only an account shows: a note names them if they are set. The lost hours are used if
they are 0."""

NO_CONCERN: Mapping[str, str] = {
    "runtime.python": "what the functions run on",
    "runtime.architecture": "what the functions run on",
    "authenticationMode": "how nodes are admitted; both modes admit the same nodes",
    "prices.maximumAgeDays": "an alarm",
    "prices.kmsKey": "how the function reads the file",
    "nodeClasses.validateLaunches": "dry runs, which need EC2; plans do not wait for them",
    "vpc.subnets": "where functions run",
    "vpc.securityGroup": "where functions run",
    "loopbackEndpoint": "the local stack",
    "doorbell.pods.rate": "how fast pods are noticed",
    "doorbell.pods.burst": "how fast pods are noticed",
    "doorbell.nodes.rate": "how fast nodes are noticed",
    "doorbell.nodes.burst": "how fast nodes are noticed",
    "doorbell.concurrency": "the quota of the doorbell's function",
    "doorbell.caParameter": "the local stack",
    "batching.idleSeconds": "a plan from files has all its pods at once",
    "batching.longestSeconds": "a plan from files has all its pods at once",
    "sweep.everyMinutes": "how fast nodes are noticed",
    "sweep.confirmAfterSeconds": "when missing instances count as gone",
    "sweep.warmUpMinutes": "how fast functions start",
    "logs.retentionDays": "logs",
    "logs.level": "logs",
    "logs.executionData": "logs",
    "tags": "tags of the deployment's own resources",
    "permissionsBoundary": "roles of the deployment",
    "alarmTopic": "alarms",
    "retainData": "what is left after cdk destroy",
    "deletionProtection": "who may delete the stack",
}


def walk(schema: Any, where: str = "") -> Iterator[str]:
    """Yield the path of every setting; a list of mappings is one setting."""
    hints = get_type_hints(schema, include_extras=True)
    for each in dataclasses.fields(schema):
        kind = hints[each.name]
        kind = get_args(kind)[0] if get_origin(kind) is Annotated else kind
        options = [one for one in get_args(kind) if dataclasses.is_dataclass(one) and get_origin(kind) is not tuple]
        kind = options[0] if options else kind
        path = f"{where}{camel_case(each.name)}"
        if dataclasses.is_dataclass(kind):
            yield from walk(kind, f"{path}.")
        else:
            yield path


def limits(folder: Path, given: Mapping[str, Any]) -> SettingsLimits:
    content: dict[str, Any] = {"cluster": "prod", "region": "us-east-1", "account": "123456789012"}
    for path, value in given.items():
        *parents, name = path.split(".")
        level = content
        for parent in parents:
            level = level.setdefault(parent, {})
        level[name] = value
    region = content["region"]
    table = {"region": region, "published": "2026-07-20", "prices": {"m5.large": 1.0}}
    (folder / "prices.json").write_text(json.dumps(table))
    (folder / "prod.yaml").write_text(json.dumps(content))
    return read_limits(folder / "prod.yaml")


def test_the_table_has_every_setting() -> None:
    assert sorted(walk(Settings)) == sorted({*USED, *NOTED, *NO_CONCERN})


@pytest.mark.parametrize("name", USED)
def test_a_setting_that_decides_plans_is_read(name: str, tmp_path: Path) -> None:
    beside = {"nodeRoles.names": ["nodes", "others"]} if name == "nodeRoles.windowsNames" else {}
    without = limits(tmp_path, beside)

    assert limits(tmp_path, {**beside, name: USED[name]}) != without


@pytest.mark.parametrize("wrong", [3, "x", [], {"a": 1}, [3], None], ids=repr)
def test_a_wrong_value_of_any_setting_is_a_mistake_or_is_read(wrong: object, tmp_path: Path) -> None:
    paths = sorted(walk(Settings))
    parents = {path.rpartition(".")[0] for path in paths} - {""}
    for path in (*paths, *parents):
        try:
            limits(tmp_path, {path: wrong})
        except UnreadableInput as error:
            assert path.partition(".")[0] in str(error)


@pytest.mark.parametrize("name", NOTED)
def test_a_setting_that_needs_an_account_is_noted(name: str, tmp_path: Path) -> None:
    assert [*describe_unchecked(limits(tmp_path, {}), ())] == []
    (note,) = describe_unchecked(limits(tmp_path, {name: NOTED[name]}), ())

    assert (note.object, note.severity) == ("settings", "info")
    assert name in note.remedy
