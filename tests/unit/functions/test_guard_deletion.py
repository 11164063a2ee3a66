"""The stack may be deleted when no instance of Joiner runs, or when nodes are kept; otherwise the error names the
command to run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from functions.guard_deletion import handler as guard_deletion
from joiner.adapters.custom_resource import REASON_LIMIT
from joiner.names import ACTING, DELETING, DRAINING, KEEPING, NODECLAIM, NODEPOOL, PAUSED


@dataclass(frozen=True)
class TaggedInstance:
    id: str
    tags: Mapping[str, str]


@dataclass
class Switch:
    """The parameter; `written` lists all values that were written to it."""

    current: str = ACTING
    written: list[str] = field(default_factory=list)

    def value(self) -> str:
        return self.current

    def write(self, value: str) -> None:
        self.current = value
        self.written.append(value)


@dataclass
class GuardedDeployment:
    """`leases` has one answer for each check whether a scale-up runs; `launched` appears when it ends."""

    switch: Switch = field(default_factory=Switch)
    running: list[TaggedInstance] = field(default_factory=list)
    leases: list[bool] = field(default_factory=list)
    launched: Sequence[TaggedInstance] = ()
    at: float = 0.0

    def lease_is_held(self) -> bool:
        held = self.leases.pop(0) if self.leases else False
        if not held:
            self.running += self.launched
            self.launched = ()
        return held

    def sleep(self, seconds: float) -> None:
        self.at += seconds

    def guard(self) -> None:
        module = guard_deletion
        around = module.DeletionContext(self.lease_is_held, lambda: self.running, lambda: self.at, self.sleep)
        module.refuse_deletion("prod", "eu-west-1", self.switch, around)

    def refusal(self, kind: str = "NodesRun") -> str:
        with pytest.raises(getattr(guard_deletion, kind)) as refused:
            self.guard()
        return str(refused.value)


def instance(number: int) -> TaggedInstance:
    return TaggedInstance(f"i-{number}", {NODECLAIM: f"default-{number}", NODEPOOL: "default"})


def test_without_instances_launches_are_stopped_and_the_stack_goes() -> None:
    deployment = GuardedDeployment()

    deployment.guard()

    assert deployment.switch.written == [DELETING]


def test_with_instances_the_refusal_names_claims_and_remedies_and_joiner_acts_again() -> None:
    deployment = GuardedDeployment(running=[instance(number) for number in range(5)])

    assert deployment.refusal() == (
        "5 instances of Joiner run: default-0 (i-0, default), default-1 (i-1, default), default-2 (i-2, "
        "default), and 2 more. Deleting the "
        "stack would leave their nodes without a program that retires them. Nothing was removed. Run joiner "
        "uninstall --cluster prod --region "
        "eu-west-1 --nodes drain (drains and terminates them) or joiner uninstall --cluster prod --region "
        "eu-west-1 --nodes keep (they run "
        "on without Joiner), then delete the stack again. If that command cannot run: aws ssm put-parameter "
        "--name /joiner/prod/pause "
        "--value keep --overwrite --region eu-west-1"
    )
    assert deployment.switch.written == [DELETING, ACTING]


def test_the_refusal_fits_into_an_answer_to_cloudformation() -> None:
    tags = {NODECLAIM: "n" * 63, NODEPOOL: "p" * 57}
    running = [TaggedInstance("i-0123456789abcdef0", tags)] * 5000

    message = guard_deletion.refusal_reason("c" * 64, "ap-southeast-3", running, draining=False)[:REASON_LIMIT]

    assert (
        f"joiner uninstall --cluster {'c' * 64} --region ap-southeast-3 --nodes keep (they run on without Joiner)"
        in message
    )


def test_an_instance_that_a_running_scale_up_launches_meanwhile_is_seen() -> None:
    deployment = GuardedDeployment(leases=[True, True, False], launched=[instance(1)])

    assert "default-1 (i-1, default)" in deployment.refusal()


def test_a_scale_up_that_does_not_end_is_a_refusal_too() -> None:
    deployment = GuardedDeployment(leases=[True] * 1000)

    assert deployment.refusal("ScaleUpRuns").startswith("a scale-up still runs after 120 s")
    assert deployment.switch.current == ACTING


def test_nodes_that_are_kept_are_no_hindrance() -> None:
    deployment = GuardedDeployment(Switch(KEEPING), running=[instance(1)])

    deployment.guard()

    assert deployment.switch.written == []


@pytest.mark.parametrize("before", [DRAINING, PAUSED])
def test_a_value_that_a_user_wrote_stays_as_it_was(before: str) -> None:
    deployment = GuardedDeployment(Switch(before), running=[instance(1)])

    message = deployment.refusal()

    assert deployment.switch.written == []
    assert ("They are being drained" in message) is (before == DRAINING)


@pytest.mark.parametrize("value", [PAUSED, DRAINING, KEEPING])
def test_a_value_that_a_user_writes_during_the_check_stays_after_a_refusal(value: str) -> None:
    deployment = GuardedDeployment(running=[instance(1)], leases=[True])
    look = deployment.lease_is_held

    def meanwhile() -> bool:
        deployment.switch.current = value
        return look()

    deployment.lease_is_held = meanwhile  # type: ignore[method-assign]
    deployment.refusal()

    assert (deployment.switch.current, deployment.switch.written) == (value, [DELETING])
