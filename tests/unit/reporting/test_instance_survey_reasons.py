"""The reasons of a sweep's survey of the instances: one sentence for each thing found."""

from joiner.lifecycle.checks.instance_survey import Mismatch
from joiner.lifecycle.orphans import OrphanVerdict
from joiner.reporting.instance_survey_reasons import describe_instance_survey


def test_a_survey_without_findings_has_no_reasons() -> None:
    assert describe_instance_survey(OrphanVerdict(), lease_holder="", waves=(), launches={}, freed=()) == []


def test_each_finding_is_one_sentence() -> None:
    verdict = OrphanVerdict(
        retire=(Mismatch("retire", "default-a has lost its instance"),),
        collect=(Mismatch("collect", "i-1 has no claim"),),
        rebuild=(Mismatch("rebuild", "node-2 has no claim"),),
        refused=7,
    )

    assert describe_instance_survey(
        verdict, lease_holder="up-1", waves=["up-2"], launches={"l-1": True, "l-2": False}, freed=["default-b"]
    ) == [
        "up-1 held the lease and does not run any more",
        "no running execution awaits the nodes of wave up-2",
        "launch l-1 is closed but not recorded",
        "launch l-2 is open",
        "no running execution retires default-b",
        "7 orphans at once are probably wrong: no instance was terminated",
        "default-a has lost its instance",
        "i-1 has no claim",
        "node-2 has no claim",
    ]
