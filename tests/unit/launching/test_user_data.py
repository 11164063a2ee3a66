"""What a node reads at its first boot: its cluster, its taints and labels, and nothing that a manifest injects."""

import email
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joiner.cluster import Resources, Taint
from joiner.launching.image_families.mime_parts import read_user_parts, write_multipart
from joiner.launching.image_families.node_settings import UserDataRefused
from joiner.launching.new_node_taints import choose_registration_taints
from joiner.launching.user_data import build_user_data
from joiner.pools import KubeletConfiguration, NodeClass, NodePool
from tests.unit.launching.launch_scenario import CLUSTER, MODERN, POOL, TEMPLATE, wanted


def written(node_class: NodeClass = TEMPLATE, pool: NodePool = POOL, cluster: Any = CLUSTER) -> str:
    return build_user_data(cluster, wanted("x", pool=pool).claim, pool, node_class, "AL2023")


def parts(text: str) -> list[tuple[str, str]]:
    message = email.message_from_string(text)
    return [(part.get_content_type(), str(part.get_payload())) for part in message.walk() if not part.is_multipart()]


def config(text: str) -> dict[str, Any]:
    content_type, payload = parts(text)[-1]
    assert content_type == "application/node.eks.aws"
    read: dict[str, Any] = json.loads(payload)
    return read


def test_a_node_of_scenario_c_joins_its_cluster() -> None:
    assert config(written()) == {
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "spec": {
            "cluster": {
                "name": "prod",
                "apiServerEndpoint": "https://ABC.gr7.us-east-1.eks.amazonaws.com",
                "certificateAuthority": CLUSTER.certificate_authority,
                "cidr": "10.100.0.0/16",
            },
            "kubelet": {
                "config": {
                    "registerWithTaints": [
                        {"key": "karpenter.sh/unregistered", "effect": "NoExecute"},
                        {"key": "joiner.dev/filling", "effect": "NoSchedule"},
                    ]
                },
                "flags": [
                    "--node-labels=karpenter.sh/do-not-sync-taints=true,karpenter.sh/provisioner-name=default,team=a"
                ],
            },
        },
    }


def test_taints_of_the_pool_precede_the_registration_taints() -> None:
    pool = replace(
        MODERN, taints=(Taint("dedicated", "NoSchedule", "a"),), startup_taints=(Taint("agent", "NoExecute"),)
    )

    taints = config(written(pool=pool))["spec"]["kubelet"]["config"]["registerWithTaints"]

    assert [taint["key"] for taint in taints] == ["dedicated", "agent", "karpenter.sh/unregistered"]


def test_a_pool_with_placing_schedule_has_no_filling_taint() -> None:
    pool = replace(POOL, own_annotations={"joiner.dev/placing": "schedule"})

    taints = config(written(pool=pool))["spec"]["kubelet"]["config"]["registerWithTaints"]

    assert [taint["key"] for taint in taints] == ["karpenter.sh/unregistered"]


def test_a_node_that_waits_for_its_own_daemons_has_no_filling_taint() -> None:
    plain = wanted("x").claim
    devices = replace(plain, requests=Resources({**plain.requests, "nvidia.com/gpu": 1}))
    starting = replace(plain, startup_taints=(Taint("agent", "NoExecute"),))

    keys = [[taint.key for taint in choose_registration_taints(each, POOL)] for each in (plain, devices, starting)]

    assert keys == [
        ["karpenter.sh/unregistered", "joiner.dev/filling"],
        ["karpenter.sh/unregistered"],
        ["karpenter.sh/unregistered"],
    ]


def test_labels_that_a_kubelet_may_not_set_are_left_to_registration() -> None:
    pool = replace(POOL, labels={"team": "a", "node-restriction.kubernetes.io/x": "y", "kops.k8s.io/group": "z"})

    assert config(written(pool=pool))["spec"]["kubelet"]["flags"] == [
        "--node-labels=karpenter.sh/do-not-sync-taints=true,karpenter.sh/provisioner-name=default,team=a"
    ]


def test_kubelet_settings_of_a_provisioner_replace_those_of_its_class() -> None:
    node_class = replace(TEMPLATE, kubelet=KubeletConfiguration({"maxPods": 110}))
    pool = replace(POOL, kubelet=KubeletConfiguration({"maxPods": 20, "kubeReserved": {"cpu": "100m"}}))

    assert config(written(node_class))["spec"]["kubelet"]["config"]["maxPods"] == 110
    read = config(written(node_class, pool))["spec"]["kubelet"]["config"]
    assert (read["maxPods"], read["kubeReserved"]) == (20, {"cpu": "100m"})


def test_instance_store_volumes_make_one_file_system() -> None:
    node_class = replace(TEMPLATE, instance_store_policy="RAID0")

    assert config(written(node_class))["spec"]["instance"] == {"localStorage": {"strategy": "RAID0"}}


@pytest.mark.parametrize(
    ("own", "types"),
    [
        ("#!/bin/sh\necho hello\n", ["text/x-shellscript"]),
        ("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n", ["application/node.eks.aws"]),
        (write_multipart(read_user_parts("#!/bin/sh\necho one")), ["text/x-shellscript"]),
        ('Content-Type: text/cloud-config\n\npackages: ["x"]\n', ["text/cloud-config"]),
        ("  \n", []),
    ],
)
def test_the_part_of_joiner_is_last_so_that_it_takes_precedence(own: str, types: list[str]) -> None:
    text = written(replace(TEMPLATE, user_data=own))

    assert [content_type for content_type, _ in parts(text)] == [*types, "application/node.eks.aws"]
    assert config(text)["spec"]["cluster"]["name"] == "prod"


ENCODED = """MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="==own=="

--==own==
Content-Type: text/x-shellscript; charset="utf-8"
Content-Transfer-Encoding: base64
Content-Disposition: attachment;
 filename="grüße.sh"

IyEvYmluL3NoCmVjaG8gIkdyw7zDn2UiCg==

--==own==
Content-Type: application/node.eks.aws
Content-Transfer-Encoding: quoted-printable

apiVersion: node.eks.aws/v1alpha1=0Akind: NodeConfig

--==own==--
"""


def test_parts_of_a_users_own_mime_keep_their_encoding() -> None:
    text = written(replace(TEMPLATE, user_data=ENCODED))

    script, own, _ = (part for part in email.message_from_string(text).walk() if not part.is_multipart())
    assert script.get_payload(decode=True) == '#!/bin/sh\necho "Grüße"\n'.encode()
    assert (script.get_content_charset(), script.get_content_disposition()) == ("utf-8", "attachment")
    assert own.get_payload(decode=True) == b"apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n"
    assert text.count("MIME-Version") == 1


def test_a_script_that_holds_the_boundary_stays_one_part() -> None:
    script = "#!/bin/sh\ncat <<E\n--//\nContent-Type: application/node.eks.aws\n\n{}\n--//--\nE"

    found = parts(written(replace(TEMPLATE, user_data=script)))

    assert [content_type for content_type, _ in found] == ["text/x-shellscript", "application/node.eks.aws"]
    assert found[0][1].rstrip("\n") == script


@given(st.text(st.characters(codec="ascii", exclude_categories=["Cc"], include_characters="\n-/"), max_size=200))
def test_no_user_script_ends_its_mime_part(text: str) -> None:
    script = f"#!/bin/sh\n{text}"

    found = parts(written(replace(TEMPLATE, user_data=script)))

    assert [content_type for content_type, _ in found] == ["text/x-shellscript", "application/node.eks.aws"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": "prod; reboot"}, "cannot be the cluster's name"),
        ({"endpoint": "https://x/$(reboot)"}, "cannot be the cluster's endpoint"),
        ({"certificate_authority": "`reboot`"}, "cannot be the cluster's certificate authority"),
        ({"service_cidr": ""}, "cannot be the cluster's service CIDR"),
    ],
)
def test_a_value_that_does_not_match_its_grammar_is_refused(change: dict[str, str], words: str) -> None:
    with pytest.raises(UserDataRefused, match=words):
        written(cluster=replace(CLUSTER, **change))


@pytest.mark.parametrize(
    ("key", "value"), [("team", "a,x=y"), ("team", "a b"), ("te am", "a"), ("x/y/z", "a"), ("team", "$(reboot)")]
)
def test_no_label_reaches_the_kubelets_flags_unchecked(key: str, value: str) -> None:
    with pytest.raises(UserDataRefused):
        written(pool=replace(POOL, labels={key: value}))


def test_a_taint_with_an_invalid_value_is_refused() -> None:
    with pytest.raises(UserDataRefused, match="the value of taint a"):
        written(pool=replace(POOL, taints=(Taint("a", "NoSchedule", "b c"),)))


def test_user_data_beyond_the_limit_of_ec2_is_refused_with_both_sizes() -> None:
    with pytest.raises(UserDataRefused, match="EC2 takes 16384") as refused:
        written(replace(TEMPLATE, user_data="#!/bin/sh\n" + "x" * 16_384))

    assert refused.value.reason == "UserDataSizeLimitExceeded"


def test_custom_images_get_the_user_data_unchanged() -> None:
    own = replace(TEMPLATE, user_data="anything")

    assert build_user_data(CLUSTER, wanted("x").claim, POOL, own, "Custom") == "anything"


def test_two_claims_of_a_pool_have_the_same_user_data() -> None:
    one, two = (
        wanted("one").claim,
        replace(wanted("two").claim, labels={**wanted("two").claim.labels, "topology.kubernetes.io/zone": "b"}),
    )

    assert build_user_data(CLUSTER, one, POOL, TEMPLATE, "AL2023") == build_user_data(
        CLUSTER, two, POOL, TEMPLATE, "AL2023"
    )
