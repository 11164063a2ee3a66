"""The launches of a class are tried with the detection of drift; what EC2 refuses holds the class back."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from functions.launch_instances.class_validation import ClassValidator
from joiner.adapters import documents
from joiner.adapters.class_validations import ClassToValidate
from joiner.adapters.parallel_calls import UNBOUNDED, TimeLeft
from joiner.lifecycle.class_verdicts import ClassVerdict
from tests.unit.functions.fake_ec2 import Answer, lost, refused
from tests.unit.functions.simulated_cluster import SimulatedCluster
from tests.unit.functions.small_account import NOON
from tests.unit.functions.test_resolve_node_classes import FakeAccount, answer

DEFAULT = "EC2NodeClass/default"
DENIED = (
    "You are not authorized to perform this operation. User: arn:aws:sts::1:assumed-role/r/s is not authorized to "
    "perform: ec2:RunInstances on resource: arn:aws:ec2:us-east-1:1:instance/* with an explicit deny in a service "
    "control policy. Encoded authorization failure message: Ab_c-9"
)


def unauthorized(operation: str, _: Mapping[str, Any]) -> Exception:
    return refused(operation, "UnauthorizedOperation", DENIED, 403)


@dataclass
class DryRunEc2:
    """EC2 for dry runs; `refuses` are the answers of operations that are neither allowed nor made."""

    refuses: dict[str, Any] = field(default_factory=dict)
    asked: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)

    def create_launch_template(self, **asked: Any) -> Answer:
        return self._do("CreateLaunchTemplate", asked)

    def create_fleet(self, **asked: Any) -> Answer:
        return self._dry("CreateFleet", asked)

    def run_instances(self, **asked: Any) -> Answer:
        return self._dry("RunInstances", asked)

    def _dry(self, operation: str, asked: Mapping[str, Any]) -> Answer:
        assert asked["DryRun"] is True, "nothing is launched"
        self._do(operation, asked)
        raise refused(operation, "DryRunOperation", "Request would have succeeded, but DryRun flag is set", 412)

    def _do(self, operation: str, asked: Mapping[str, Any]) -> Answer:
        self.asked.append((operation, asked))
        if error := self.refuses.get(operation, lambda *_: None)(operation, asked):
            raise error
        return {}

    @property
    def calls(self) -> list[str]:
        return [operation for operation, _ in self.asked]


def validate(
    cluster: SimulatedCluster, ec2: DryRunEc2, later: int = 0, *, time_left: TimeLeft = UNBOUNDED
) -> dict[str, Any]:
    """Resolve every class `later` seconds after noon, try what is due, and return the validator's answer."""
    at = NOON + timedelta(seconds=later)
    summary, _ = answer(cluster, FakeAccount(), every=True, now=at)
    if not summary["validation"]:
        return {}
    due = documents.get_validations(cluster.store, summary["validation"])
    wanted = [each for each in due if each.key == DEFAULT]
    return ClassValidator(cluster.ledger, ec2, time_left).answer(wanted, at) if wanted else {}


def ready(cluster: SimulatedCluster, later: int = 1) -> bool:
    """Return whether a scale-up may use the class."""
    _, classes = answer(cluster, FakeAccount(), now=NOON + timedelta(seconds=later))
    return bool(classes[DEFAULT].ready)


@pytest.fixture(name="cluster")
def cluster_with_catalogue(cluster: SimulatedCluster) -> SimulatedCluster:
    return cluster.prepare()


def test_a_class_that_ec2_allows_costs_three_calls_each_half_hour(cluster: SimulatedCluster) -> None:
    ec2 = DryRunEc2()
    answers = [validate(cluster, ec2, later) for later in (0, 300, 1500, 1800)]

    assert answers == [
        {"validated": 1, "refused": 0, "changed": 0},
        {},
        {},
        {"validated": 1, "refused": 0, "changed": 0},
    ]
    assert ec2.calls == ["CreateLaunchTemplate", "CreateFleet", "RunInstances"] * 2
    assert ready(cluster)


def test_a_dry_run_names_the_template_and_has_its_fields_in_the_request(cluster: SimulatedCluster) -> None:
    ec2 = DryRunEc2()
    validate(cluster, ec2)
    asked = dict(ec2.asked)

    name = asked["CreateLaunchTemplate"]["LaunchTemplateName"]
    assert asked["RunInstances"]["LaunchTemplate"] == {"LaunchTemplateName": name, "Version": "1"}
    assert asked["RunInstances"]["MetadataOptions"]["HttpTokens"] == "required"
    assert asked["CreateFleet"]["LaunchTemplateConfigs"][0]["LaunchTemplateSpecification"]["LaunchTemplateName"] == name


@pytest.mark.parametrize("operation", ["CreateLaunchTemplate", "CreateFleet", "RunInstances"])
def test_a_class_is_not_ready_while_ec2_refuses_a_call_of_its_launches(
    cluster: SimulatedCluster, operation: str
) -> None:
    ec2 = DryRunEc2({operation: unauthorized})

    assert ready(cluster), "no pod waits for the first verdict"
    assert validate(cluster, ec2) == {"validated": 1, "refused": 1, "changed": 1}
    _, classes = answer(cluster, FakeAccount())
    (problem,) = (each for each in classes[DEFAULT].problems if each.severity == "error")
    assert (problem.condition, problem.reason) == ("ValidationSucceeded", f"{operation}AuthCheckFailed")
    assert "service control policy" in problem.message and "Ab_c-9" not in problem.message
    assert answer(cluster, FakeAccount(), every=True)[1]["EC2NodeClass/unnamed"].ready, "others are not affected"

    assert validate(cluster, ec2, 60) == {}
    assert validate(cluster, ec2, 300) == {"validated": 1, "refused": 1, "changed": 0}
    ec2.refuses.clear()
    assert not ready(cluster, 599)
    assert validate(cluster, ec2, 600) == {"validated": 1, "refused": 0, "changed": 1}
    assert ready(cluster, 601)


def test_one_launch_that_ec2_allows_is_enough(cluster: SimulatedCluster) -> None:
    """A policy often forbids only some instance types (eks-workshop-v2#1859)."""

    def only_xlarge(operation: str, asked: Mapping[str, Any]) -> Exception | None:
        return None if asked["InstanceType"] == "m5.xlarge" else unauthorized(operation, asked)

    ec2 = DryRunEc2({"RunInstances": only_xlarge})

    assert validate(cluster, ec2) == {"validated": 1, "refused": 0, "changed": 0}
    assert [asked["InstanceType"] for call, asked in ec2.asked if call == "RunInstances"] == ["m5.large", "m5.xlarge"]
    assert ready(cluster)


@pytest.mark.parametrize(
    "error",
    [
        lambda operation, _: refused(operation, "RequestLimitExceeded", "slow down", 503),
        lambda operation, _: lost(operation),
        lambda operation, _: refused(operation, "InternalError", "oops", 500),
        lambda operation, _: refused(operation, "Unsupported", "not in this zone"),
        lambda operation, _: refused(operation, "InvalidLaunchTemplateName.NotFoundException", "unknown"),
    ],
    ids=["throttled", "no answer", "broken", "unsupported", "no template"],
)
@pytest.mark.parametrize("operation", ["CreateLaunchTemplate", "CreateFleet", "RunInstances"])
def test_any_other_answer_leaves_the_verdict_that_there_is(
    cluster: SimulatedCluster, operation: str, error: Any
) -> None:
    nothing = {"validated": 0, "refused": 0, "changed": 0}
    assert validate(cluster, DryRunEc2({operation: error})) == nothing
    assert ready(cluster)

    validate(cluster, DryRunEc2({"RunInstances": unauthorized}), 1)
    assert validate(cluster, DryRunEc2({operation: error}), 301) == nothing
    assert not ready(cluster, 302)


def test_without_time_nothing_is_tried(cluster: SimulatedCluster) -> None:
    ec2 = DryRunEc2()

    assert validate(cluster, ec2, time_left=TimeLeft(lambda: 1.0)) == {"validated": 0, "refused": 0, "changed": 0}
    assert ec2.calls == []


def test_ready_classes_are_tried_whether_a_pool_names_them_or_not(cluster: SimulatedCluster) -> None:
    def due() -> list[str]:
        summary, _ = answer(cluster, FakeAccount(), every=True)
        return sorted(each.key for each in documents.get_validations(cluster.store, summary["validation"]))

    assert due() == [DEFAULT, "EC2NodeClass/unnamed"]
    cluster.ledger.back_off("class#v1#default", "its instances end", int(NOON.timestamp()))
    assert due() == ["EC2NodeClass/unnamed"]


def test_only_the_detection_of_drift_asks_for_dry_runs(cluster: SimulatedCluster) -> None:
    assert answer(cluster, FakeAccount())[0]["validation"] == ""


def test_refusals_of_some_instance_types_are_reported_and_hold_no_class_back(cluster: SimulatedCluster) -> None:
    """A policy may allow only types that were not tried."""
    summary, _ = answer(cluster, FakeAccount(), every=True)
    (default,) = (
        each for each in documents.get_validations(cluster.store, summary["validation"]) if each.key == DEFAULT
    )
    assert default.whole
    some = replace(default, launches=default.launches[:2], whole=False)
    counts = ClassValidator(cluster.ledger, DryRunEc2({"RunInstances": unauthorized}), UNBOUNDED).answer([some], NOON)
    _, classes = answer(cluster, FakeAccount(), now=NOON + timedelta(seconds=1))
    (problem,) = (each for each in classes[DEFAULT].problems if each.condition == "ValidationSucceeded")

    assert counts == {"validated": 1, "refused": 1, "changed": 1}
    assert classes[DEFAULT].ready
    assert (problem.reason, problem.severity) == ("SomeLaunchesRefused", "warning")
    assert "the role of launch_instances may not ec2:RunInstances" in problem.message


def test_an_unclear_answer_about_one_launch_leaves_it_to_the_others(cluster: SimulatedCluster) -> None:
    def only_xlarge(operation: str, asked: Mapping[str, Any]) -> Exception | None:
        return None if asked["InstanceType"] == "m5.xlarge" else refused(operation, "Unsupported", "not in this zone")

    assert validate(cluster, DryRunEc2({"RunInstances": only_xlarge})) == {"validated": 1, "refused": 0, "changed": 0}


def test_the_settings_switch_dry_runs_off_and_their_verdicts_too(cluster: SimulatedCluster) -> None:
    validate(cluster, DryRunEc2({"RunInstances": unauthorized}))
    summary, classes = answer(cluster, FakeAccount(), every=True, now=NOON + timedelta(minutes=10), validates=False)

    assert summary["validation"] == ""
    assert classes[DEFAULT].ready


def test_without_a_catalogue_nothing_is_tried_yet(make_cluster: Any) -> None:
    assert validate(make_cluster(), DryRunEc2()) == {}


def test_the_ledger_keeps_verdicts_beside_back_offs(cluster: SimulatedCluster) -> None:
    at = int(NOON.timestamp())
    cluster.ledger.back_off("class#v1#web", "it ended", at)
    validate(cluster, DryRunEc2({"RunInstances": unauthorized}))

    waits, verdicts = cluster.ledger.class_holds(at + 1)
    assert set(waits) == {"class#v1#web"} and set(cluster.ledger.back_offs(at + 1)) == {"class#v1#web"}
    assert set(verdicts) == {DEFAULT}
    assert (verdicts[DEFAULT].at, [each.call for each in verdicts[DEFAULT].refusals]) == (at, ["RunInstances"])
    cluster.ledger.note_verdict(DEFAULT, ClassVerdict("d", (), at + 9))
    assert cluster.ledger.class_holds(at + 10)[1] == {DEFAULT: ClassVerdict("d", (), at + 9)}


def test_a_class_to_validate_travels_unchanged(cluster: SimulatedCluster) -> None:
    validate(cluster, DryRunEc2({"RunInstances": unauthorized}))
    summary, _ = answer(cluster, FakeAccount(), every=True, now=NOON + timedelta(seconds=300))
    (found,) = (each for each in documents.get_validations(cluster.store, summary["validation"]) if each.key == DEFAULT)

    assert [each.call for each in found.held] == ["RunInstances"]
    assert ClassToValidate.from_json(found.to_json()) == found
