"""User data of each family, read again by the local node agent as the family's image reads it."""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joiner.cluster import Taint
from joiner.launching.class_manifest_problems import find_family_problems
from joiner.launching.image_families.image_family_registry import IMAGE_FAMILIES
from joiner.launching.image_families.node_settings import NodeSettings, UserDataRefused
from joiner.pools import ImageTerm, KubeletConfiguration, NodeClass
from joiner.pools.node_class import ImageFamily
from joiner_local.node_agent.boot_settings import BootSettings
from joiner_local.node_agent.bottlerocket_settings import read_bottlerocket_settings
from joiner_local.node_agent.eks_bootstrap_script import read_bootstrap_script
from joiner_local.node_agent.image_software import software_of
from joiner_local.node_agent.node_config import read_node_config
from joiner_local.node_agent.node_registration import Unbootable
from joiner_local.node_agent.windows_bootstrap import read_windows_bootstrap
from tests.unit.launching.launch_scenario import CERTIFICATE, CLUSTER, TEMPLATE, resolved

READERS: Mapping[ImageFamily, Callable[[bytes], BootSettings]] = {
    "AL2023": read_node_config,
    "AL2": read_bootstrap_script,
    "Ubuntu": read_bootstrap_script,
    "Bottlerocket": read_bottlerocket_settings,
    "Windows2019": read_windows_bootstrap,
    "Windows2022": read_windows_bootstrap,
    "Windows2025": read_windows_bootstrap,
}

NAMES = st.from_regex(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,20}[A-Za-z0-9])?", fullmatch=True)
KEYS = st.one_of(NAMES, NAMES.map(lambda name: f"example.com/{name}"))
LABELS = st.dictionaries(KEYS, st.one_of(st.just(""), NAMES), max_size=4)
EFFECTS = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
TAINTS = st.lists(
    st.builds(Taint, KEYS, EFFECTS, st.one_of(st.just(""), NAMES)),
    max_size=4,
    unique_by=lambda taint: (taint.key, taint.effect),
)
QUANTITIES = st.sampled_from(["100m", "1Gi", "0.5", ".5", "+1", "1e-1", "2E+3", 1, 1000])
AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "ephemeral-storage"]), QUANTITIES, min_size=1)
SIGNALS = st.sampled_from(["memory.available", "nodefs.available", "imagefs.inodesFree"])
THRESHOLDS = st.dictionaries(SIGNALS, st.sampled_from(["5%", "2.5%", "200Mi", ".5Gi"]), min_size=1)
GRACES = st.dictionaries(SIGNALS, st.sampled_from(["1m", "90s"]), min_size=1)
KUBELETS = st.fixed_dictionaries(
    {},
    optional={
        "maxPods": st.integers(0, 250),
        "podsPerCore": st.integers(0, 20),
        "systemReserved": AMOUNTS,
        "kubeReserved": AMOUNTS,
        "evictionHard": THRESHOLDS,
        "evictionSoft": THRESHOLDS,
        "evictionSoftGracePeriod": GRACES,
        "evictionMaxPodGracePeriod": st.integers(0, 600),
        "imageGCHighThresholdPercent": st.integers(0, 100),
        "imageGCLowThresholdPercent": st.integers(0, 100),
        "cpuCFSQuota": st.booleans(),
        "clusterDNS": st.just(["10.0.0.53"]),
    },
)


@dataclass(frozen=True, slots=True)
class Facts:
    """What a node must read from its user data, whatever its family."""

    cluster: str
    endpoint: str
    certificate_authority: bytes
    labels: Mapping[str, str]
    taints: frozenset[tuple[str, str, str]]
    kubelet: Mapping[str, Any]
    local_storage: str


def facts_of(read: BootSettings) -> Facts:
    taints = ((taint["key"], taint.get("value", ""), taint["effect"]) for taint in read.registration.taints)
    kubelet = {key: value for key, value in read.kubelet.items() if key != "registerWithTaints"}
    return Facts(
        read.cluster,
        read.endpoint,
        read.certificate_authority,
        read.registration.labels,
        frozenset(taints),
        kubelet,
        read.local_storage,
    )


def expected(family: ImageFamily, settings: NodeSettings) -> Facts:
    kubelet = {
        field: {key: str(one) for key, one in value.items()} if isinstance(value, Mapping) else value
        for field, value in settings.kubelet.items()
    }
    if family == "Bottlerocket":
        kubelet.pop("podsPerCore", None)  # it has no such setting
        texts = ("imageGCHighThresholdPercent", "imageGCLowThresholdPercent")
        kubelet |= {key: str(kubelet[key]) for key in texts if key in kubelet}
    if family != "AL2023":
        kubelet.setdefault("clusterDNS", ["10.100.0.10"])
    return Facts(
        "prod",
        CLUSTER.endpoint,
        CERTIFICATE,
        settings.labels,
        frozenset((taint.key, taint.value, taint.effect) for taint in settings.taints),
        kubelet,
        "RAID0" if settings.raid0 and not family.startswith("Windows") else "",
    )


@pytest.mark.parametrize("family", READERS)
@given(LABELS, TAINTS, KUBELETS, st.booleans())
def test_a_node_reads_the_facts_that_were_written(
    family: ImageFamily, labels: dict[str, str], taints: list[Taint], kubelet: dict[str, Any], raid0: bool
) -> None:
    settings = NodeSettings(CLUSTER, labels, tuple(taints), kubelet, raid0)

    read = READERS[family](IMAGE_FAMILIES[family].write_user_data(settings).encode())

    assert facts_of(read) == expected(family, settings)


SCRIPT = "#!/bin/bash\necho 'own'\n"


OWN: Mapping[ImageFamily, tuple[str, str]] = {
    "AL2023": (SCRIPT, SCRIPT.rstrip()),
    "AL2": (SCRIPT, SCRIPT.rstrip()),
    "Ubuntu": (SCRIPT, SCRIPT.rstrip()),
    "Bottlerocket": ('[settings.kernel]\nlockdown = "integrity"\n', '[settings.kernel]\nlockdown = "integrity"'),
    "Windows2019": ("Write-Host own", "<powershell>\nWrite-Host own\n[string]"),
    "Windows2022": ("<powershell>\nWrite-Host own\n</powershell>", "<powershell>\nWrite-Host own\n[string]"),
    "Windows2025": ("Write-Host own\n", "<powershell>\nWrite-Host own\n[string]"),
}
"""The user's own data, and how it stands in the user data."""


@pytest.mark.parametrize("family", READERS)
def test_the_users_own_data_is_kept_beside_the_nodes(family: ImageFamily) -> None:
    own, kept = OWN[family]
    settings = NodeSettings(CLUSTER, {"team": "a"}, own=own)

    text = IMAGE_FAMILIES[family].write_user_data(settings)

    assert kept in text
    assert facts_of(READERS[family](text.encode())) == expected(family, settings)


@pytest.mark.parametrize("family", READERS)
@pytest.mark.parametrize(
    "change",
    [
        {"labels": {"team": "a'; reboot #"}},
        {"taints": (Taint("a", "NoSchedule", "$(reboot)"),)},
        {"cluster": replace(CLUSTER, name="prod'; reboot")},
        {"cluster": replace(CLUSTER, endpoint="https://x/$(reboot)")},
        {"cluster": replace(CLUSTER, certificate_authority="`reboot`")},
    ],
)
def test_no_value_of_a_manifest_reaches_the_shell_of_a_node(family: ImageFamily, change: dict[str, Any]) -> None:
    with pytest.raises(UserDataRefused):
        IMAGE_FAMILIES[family].write_user_data(replace(NodeSettings(CLUSTER), **change))


@pytest.mark.parametrize(
    "kubelet",
    [
        {"kubeReserved": {"cpu": "1'; reboot #"}},
        {"evictionHard": {"memory.available": "$(reboot)"}},
        {"evictionHard": {"a'b": "5%"}},
        {"clusterDNS": ["10.0.0.1; reboot"]},
        {"maxPods": "1 --x"},
    ],
)
def test_no_kubelet_setting_reaches_the_bootstrap_script_unchecked(kubelet: dict[str, Any]) -> None:
    with pytest.raises(UserDataRefused):
        IMAGE_FAMILIES["AL2"].write_user_data(NodeSettings(CLUSTER, kubelet=kubelet))


def test_each_family_gets_several_dns_servers_or_reports_that_it_takes_one() -> None:
    dns = ["10.0.0.53", "10.0.0.54"]
    for family, reader in READERS.items():
        node_class = NodeClass("default", ami_family=family, kubelet=KubeletConfiguration({"clusterDNS": dns}))
        user_data = IMAGE_FAMILIES[family].write_user_data(NodeSettings(CLUSTER, kubelet={"clusterDNS": dns}))
        reported = [
            one.message for one in IMAGE_FAMILIES[family].find_problems(node_class) if "clusterDNS" in one.message
        ]

        has_all = reader(user_data.encode()).kubelet["clusterDNS"] == dns
        assert (has_all, len(reported)) in ((True, 0), (False, 1)), family


def test_bottlerocket_takes_percentages_as_numbers_or_texts() -> None:
    own = '[settings.kubernetes]\nimage-gc-high-threshold-percent = 85\nimage-gc-low-threshold-percent = "80"\n'

    text = IMAGE_FAMILIES["Bottlerocket"].write_user_data(NodeSettings(CLUSTER, own=own))

    kubelet = READERS["Bottlerocket"](text.encode()).kubelet
    assert (kubelet["imageGCHighThresholdPercent"], kubelet["imageGCLowThresholdPercent"]) == ("85", "80")


def test_bottlerocket_settings_of_the_user_stay_unless_they_are_the_nodes() -> None:
    own = """
[settings.kubernetes]
api-server = "https://other"
allowed-unsafe-sysctls = ["net.core.somaxconn"]
max-pods = 30
node-labels = {own = "label", team = "b"}
node-taints = {own = ["taint:NoSchedule"]}

[settings.autoscaling]
should-wait = true
"""
    text = IMAGE_FAMILIES["Bottlerocket"].write_user_data(
        NodeSettings(CLUSTER, {"team": "a"}, (Taint("k", "NoSchedule", "v"), Taint("k", "NoExecute")), own=own)
    )

    assert tomllib.loads(text) == {
        "settings": {
            "autoscaling": {"should-wait": False},
            "kubernetes": {
                "allowed-unsafe-sysctls": ["net.core.somaxconn"],
                "api-server": CLUSTER.endpoint,
                "cluster-certificate": CLUSTER.certificate_authority,
                "cluster-dns-ip": "10.100.0.10",
                "cluster-name": "prod",
                "max-pods": 30,
                "node-labels": {"own": "label", "team": "a"},
                "node-taints": {"k": ["v:NoSchedule", ":NoExecute"]},
            },
        }
    }


def test_bottlerocket_reports_pods_per_core_without_effect() -> None:
    node_class = replace(TEMPLATE, ami_family="Bottlerocket", kubelet=KubeletConfiguration({"podsPerCore": 5}))

    (found,) = [problem for problem in resolved(node_class).problems if problem.reason == "WithoutEffect"]
    assert found.message == "spec.kubelet.podsPerCore: Bottlerocket has no such setting: use maxPods"


ALIASES = {
    "al2023@v20240807": "/aws/service/eks/optimized-ami/1.32/amazon-linux-2023/x86_64/standard/"
    "amazon-eks-node-al2023-x86_64-standard-1.32-v20240807/image_id",
    "al2@latest": "/aws/service/eks/optimized-ami/1.32/amazon-linux-2/recommended/image_id",
    "al2@v20240807": "/aws/service/eks/optimized-ami/1.32/amazon-linux-2/amazon-eks-node-1.32-v20240807/image_id",
    "bottlerocket@latest": "/aws/service/bottlerocket/aws-k8s-1.32/x86_64/latest/image_id",
    "bottlerocket@v1.20.0": "/aws/service/bottlerocket/aws-k8s-1.32/x86_64/1.20.0/image_id",
    "windows2022@latest": "/aws/service/ami-windows-latest/Windows_Server-2022-English-Core-EKS_Optimized-1.32"
    "/image_id",
    "bottlerocket@1.20.0": "/aws/service/bottlerocket/aws-k8s-1.32/x86_64/1.20.0/image_id",
}


@pytest.mark.parametrize("alias", ALIASES)
def test_an_alias_names_the_parameters_of_a_release(alias: str) -> None:
    from joiner.launching.node_images import list_image_parameters

    named = list_image_parameters(replace(TEMPLATE, ami_family="Custom", image_terms=(ImageTerm(alias=alias),)), "1.32")

    assert named[0].name == ALIASES[alias]


@pytest.mark.parametrize(
    ("labels", "images"),
    [
        ({"kubernetes.io/arch": "amd64"}, ("standard", "aws-k8s-1.32/x86_64", "amazon-linux-2/")),
        ({"kubernetes.io/arch": "arm64"}, ("standard", "aws-k8s-1.32/arm64", "amazon-linux-2-arm64/")),
        (
            {"kubernetes.io/arch": "amd64", "karpenter.k8s.aws/instance-gpu-count": "1"},
            ("nvidia", "aws-k8s-1.32-nvidia/x86_64", "amazon-linux-2-gpu/"),
        ),
        (
            {"kubernetes.io/arch": "amd64", "karpenter.k8s.aws/instance-accelerator-count": "1"},
            ("neuron", "aws-k8s-1.32/x86_64", "amazon-linux-2-gpu/"),
        ),
    ],
)
def test_the_image_of_a_variant_is_for_types_with_its_devices(labels: dict[str, str], images: tuple[str, ...]) -> None:
    chosen = [
        [one.name for one in IMAGE_FAMILIES[family].list_parameters("1.32", "latest") if one.requirements.allow(labels)]
        for family in ("AL2023", "Bottlerocket", "AL2")
    ]

    assert [len(names) for names in chosen] == [1, 1, 1]
    assert all(image in names[0] for image, names in zip(images, chosen, strict=True))


def test_al2_has_no_images_from_1_33_on() -> None:
    # The cluster of these tests has 1.36
    (found,) = [one for one in resolved(replace(TEMPLATE, ami_family="AL2")).problems if one.severity == "error"]

    assert (found.condition, found.reason) == ("AMIsReady", "NoImagesForVersion")
    assert found.message.endswith("and the cluster has 1.36: use the family AL2023")


@pytest.mark.parametrize(("version", "reasons"), [("1.34", ["NoImagesForVersion"]), ("1.35", []), ("", [])])
def test_windows_2025_has_images_from_1_35_on(version: str, reasons: list[str]) -> None:
    found = find_family_problems(replace(TEMPLATE, ami_family="Windows2025"), version)

    assert [problem.reason for problem in found] == reasons


def test_windows_has_only_the_latest_release() -> None:
    pinned = replace(TEMPLATE, ami_family="Windows2022", image_terms=(ImageTerm(alias="windows2022@v1"),))

    assert [problem.reason for problem in find_family_problems(pinned)] == ["TermNotSupported"]


@pytest.mark.parametrize(
    ("image", "user_data", "why"),
    [
        ("bottlerocket-aws-k8s-1.36-x86_64-v1.50.0-f2c1d5a8", "#!/bin/sh\nreboot", "no TOML"),
        ("bottlerocket-aws-k8s-1.36-x86_64-v1.50.0-f2c1d5a8", "[settings.kubernetes]\nx = 1", "knows no settings"),
        ("bottlerocket-aws-k8s-1.36-x86_64-v1.50.0-f2c1d5a8", "[settings.kubernetes]\nmax-pods = '5'", "is no number"),
        (
            "bottlerocket-aws-k8s-1.36-x86_64-v1.50.0-f2c1d5a8",
            "[settings.kubernetes.node-labels]\na = 1",
            "node-labels has a value that is no text",
        ),
        ("bottlerocket-aws-k8s-1.36-x86_64-v1.50.0-f2c1d5a8", "[settings.kubernetes]", "api-server is missing"),
        ("amazon-eks-node-1.32-v20261104", "apiVersion: node.eks.aws/v1alpha1", "no script of the user data calls"),
        ("amazon-eks-node-1.32-v20261104", "#!/bin/sh\n/etc/eks/bootstrap.sh a b", "takes one cluster name"),
        ("amazon-eks-node-1.32-v20261104", "#!/bin/sh\n/etc/eks/bootstrap.sh a --what x", "knows no option"),
        ("Windows_Server-2022-English-Core-EKS_Optimized-1.36-2026.11.04", "#!/bin/sh", "has no <powershell>"),
        (
            "Windows_Server-2022-English-Core-EKS_Optimized-1.36-2026.11.04",
            "<powershell>\nWrite-Host\n</powershell>",
            "no command of the user data calls",
        ),
        ("golden", "#!/bin/sh\necho", "starts no kubelet"),
    ],
)
def test_an_image_refuses_the_user_data_of_another_family(image: str, user_data: str, why: str) -> None:
    with pytest.raises(Unbootable, match=why):
        software_of(image).read(user_data.encode())
