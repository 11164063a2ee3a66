"""A claim is written before its instance exists, updated with the outcome, and read back unchanged, in both kinds."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joiner.cluster import Requirements, Resources, Taint
from joiner.launching import PairedInstance
from joiner.pools import (
    Conditions,
    InvalidManifests,
    NodeClaim,
    NodeClaimTemplate,
    NodeClassRef,
    NodePool,
    build_node_claim,
    read_manifests,
    read_node_claim,
    write_claim_status,
    write_node_claim,
)
from joiner.pools.durations import format_duration, parse_duration

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
POOLS = {
    "Machine": NodePool(
        "default",
        NodeClassRef("AWSNodeTemplate", "default"),
        kind="Provisioner",
        uid="u-1",
        expire_after=None,
        labels={"team": "a"},
    ),
    "NodeClaim": NodePool(
        "default",
        NodeClassRef("EC2NodeClass", "default"),
        uid="u-1",
        labels={"team": "a"},
        taints=(Taint("dedicated", "NoSchedule", "a"),),
        startup_taints=(Taint("agent", "NoExecute"),),
        termination_grace_period=3600,
    ),
}


def claim(kind: str) -> NodeClaim:
    return build_node_claim(
        POOLS[kind],
        NodeClaimTemplate(
            requirements=Requirements.from_labels({"kubernetes.io/arch": "amd64"}),
            requests=Resources.of(cpu="1900m", memory="3Gi"),
            labels={"kubernetes.io/arch": "amd64"},
        ),
        suffix="7f3ka",
        lease=7,
        execution="up-20261121T051728",
    )


def launched(kind: str) -> NodeClaim:
    return claim(kind).as_launched(
        PairedInstance("i-1", "default-7f3ka", "m5.large", "us-east-1a", "spot", "ami-1"), at=NOON, launch="l-1"
    )


def test_a_machine_as_it_is_created() -> None:
    assert write_node_claim(claim("Machine")) == {
        "apiVersion": "karpenter.sh/v1alpha5",
        "kind": "Machine",
        "metadata": {
            "name": "default-7f3ka",
            "labels": {"team": "a", "kubernetes.io/arch": "amd64", "karpenter.sh/provisioner-name": "default"},
            "annotations": {"joiner.dev/lease": "7", "joiner.dev/execution": "up-20261121T051728"},
            "finalizers": ["karpenter.sh/termination"],
            "ownerReferences": [
                {
                    "apiVersion": "karpenter.sh/v1alpha5",
                    "kind": "Provisioner",
                    "name": "default",
                    "uid": "u-1",
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
            "resources": {"requests": {"cpu": "1900m", "memory": "3Gi"}},
            "taints": [],
            "startupTaints": [],
            "machineTemplateRef": {
                "apiVersion": "karpenter.k8s.aws/v1alpha1",
                "kind": "AWSNodeTemplate",
                "name": "default",
            },
        },
    }


def test_a_node_claim_names_its_class_and_its_ages() -> None:
    spec = write_node_claim(claim("NodeClaim"))["spec"]

    assert spec["nodeClassRef"] == {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    assert (spec["expireAfter"], spec["terminationGracePeriod"]) == ("720h", "1h")
    assert claim("NodeClaim").labels["karpenter.k8s.aws/ec2nodeclass"] == "default"


def test_the_machine_of_an_inline_provider_refers_to_no_template() -> None:
    pool = NodePool("default", NodeClassRef("Inline", "default"), kind="Provisioner")
    one = build_node_claim(pool, NodeClaimTemplate(), suffix="x", lease=1, execution="e")

    assert "machineTemplateRef" not in write_node_claim(one)["spec"]
    assert read_node_claim(write_node_claim(one)).class_ref == NodeClassRef("Inline", "default")


@pytest.mark.parametrize("kind", ["Machine", "NodeClaim"])
def test_a_claim_reads_back_as_it_was_written(kind: str) -> None:
    for one in (claim(kind), launched(kind), launched(kind).as_registered("ip-1", at=NOON).as_initialized(at=NOON)):
        assert read_node_claim({**write_node_claim(one), **write_claim_status(one)}) == one


def test_the_life_of_a_machine_in_its_conditions() -> None:
    def shown(one: NodeClaim) -> list[tuple[str, str]]:
        return [
            (condition["type"], condition["status"]) for condition in write_claim_status(one)["status"]["conditions"]
        ]

    started = launched("Machine")
    joined = started.as_registered("ip-1", at=NOON)
    ready = joined.as_initialized(at=NOON)

    assert shown(started) == [
        ("MachineLaunched", "True"),
        ("Ready", "Unknown"),
        ("MachineRegistered", "Unknown"),
        ("MachineInitialized", "Unknown"),
    ]
    assert shown(joined)[1:] == [("Ready", "Unknown"), ("MachineRegistered", "True"), ("MachineInitialized", "Unknown")]
    assert {status for _, status in shown(ready)} == {"True"}


def test_a_launched_claim_knows_its_instance() -> None:
    one = launched("NodeClaim")

    assert (one.provider_id, one.instance_id) == ("aws:///us-east-1a/i-1", "i-1")
    assert (one.instance_type, one.zone, one.capacity_type) == ("m5.large", "us-east-1a", "spot")
    assert (one.launch, one.lease, one.pool_key) == ("l-1", 7, "NodePool/default")


@pytest.mark.parametrize(
    "status",
    [
        {"conditions": [{"type": "Launched", "status": "maybe"}], "capacity": {"cpu": "many"}},
        {"conditions": None, "allocatable": None},
        {},
    ],
)
def test_a_claim_with_invalid_fields_is_still_read(status: dict[str, Any]) -> None:
    spec = {"requirements": [{"key": "a", "operator": "Sometimes"}], "expireAfter": "soon", "taints": [{"key": "a"}]}

    one = read_node_claim(
        {
            "kind": "NodeClaim",
            "metadata": {"name": "a", "labels": {"karpenter.sh/nodepool": "p"}},
            "spec": spec,
            "status": status,
        }
    )

    assert (one.name, one.pool, one.launched) == ("a", "p", False)


@pytest.mark.parametrize(
    ("kind", "field", "reference"),
    [
        ("NodeClaim", "spec.nodeClassRef.group", {"group": "example.com", "kind": "EC2NodeClass"}),
        ("NodeClaim", "spec.nodeClassRef.kind", {"group": "karpenter.k8s.aws", "kind": "NodeClass"}),
        ("Machine", "spec.machineTemplateRef.kind", {"kind": "EC2NodeClass"}),
        ("Machine", "spec.machineTemplateRef.apiVersion", {"apiVersion": "karpenter.k8s.aws/v1"}),
    ],
)
def test_a_claim_of_a_user_that_refers_to_a_class_of_another_kind_is_not_launched(
    kind: str, field: str, reference: dict[str, str]
) -> None:
    labels = {"karpenter.sh/provisioner-name": "default"}
    spec = {field.split(".")[1]: {**reference, "name": "default"}}
    manifest = {"kind": kind, "metadata": {"name": "mine", "labels": labels}, "spec": spec}

    errors = [one for one in read_manifests([manifest]).problems if one.severity == "error"]

    assert [one.field for one in errors] == [field]


def test_an_object_of_another_kind_is_refused() -> None:
    with pytest.raises(InvalidManifests, match="give a NodeClaim or a Machine"):
        read_node_claim({"kind": "Node", "metadata": {"name": "a"}})


@given(
    st.lists(
        st.tuples(st.sampled_from(["A", "B"]), st.sampled_from(["True", "False", "Unknown"])), min_size=1, max_size=8
    )
)
def test_a_transition_time_moves_only_with_the_status(changes: list[tuple[str, Any]]) -> None:
    conditions = Conditions()
    expected: dict[str, tuple[Any, datetime]] = {}
    for hours, (name, status) in enumerate(changes):
        at = NOON + timedelta(hours=hours)
        if name not in expected or expected[name][0] != status:
            expected[name] = (status, at)
        conditions = conditions.set(name, status, at=at)

    assert {condition.type: (condition.status, condition.since) for condition in conditions} == expected
    assert Conditions.from_kube(conditions.to_kube()) == conditions


@given(st.none() | st.integers(min_value=0, max_value=10**9))
def test_a_duration_reads_back_as_it_was_written(seconds: int | None) -> None:
    assert parse_duration(format_duration(seconds)) == seconds


@given(
    st.text("abc-", min_size=1, max_size=80).map(lambda text: f"a{text}"),
    st.text("0123456789abcdef", min_size=5, max_size=12),
)
def test_a_name_fits_a_label_and_ends_with_its_suffix(pool: str, suffix: str) -> None:
    name = build_node_claim(
        NodePool(pool, NodeClassRef("EC2NodeClass", "c")),
        NodeClaimTemplate(),
        suffix=suffix,
        lease=1,
        execution="e",
    ).name

    assert len(name) <= 63
    assert name.endswith(f"-{suffix}")
