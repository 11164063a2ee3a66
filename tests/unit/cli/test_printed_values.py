"""A problem shows the value of its field as it is written, and a remedy that fits this value."""

from typing import Any

import pytest

from tests.unit.cli.command_runs import node_class, pod
from tests.unit.cli.manifest_reading import read_objects
from tests.unit.cli.written_forms import list_written_forms


def overlay(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "default"},
        "spec": {"requirements": [{"key": "kubernetes.io/arch", "operator": "Exists"}], **spec},
    }


def volume(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"}, "spec": spec}


def terms(**fields: Any) -> dict[str, Any]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [fields]}}}


NO_VALUES = terms(matchExpressions=[{"key": "a", "operator": "In"}])


@pytest.mark.parametrize(
    ("manifest", "field", "value", "remedy"),
    [
        (
            node_class(kubelet={"kubeReserved": {"cpu": "-1"}}),
            "spec.kubelet.kubeReserved[cpu]",
            "-1",
            "give a quantity of at least zero",
        ),
        (
            node_class(kubelet={"systemReserved": {"gpu": "1500m"}}),
            "spec.kubelet.systemReserved[gpu]",
            "1500m",
            "the kubelet can reserve only cpu, memory, ephemeral-storage, pid",
        ),
        (
            overlay(capacity={"cpu": "9"}),
            "spec.capacity.cpu",
            "9",
            "only extended resources can be added; remove this resource, which the instance type has",
        ),
        (
            overlay(capacity={"example.com/a": "-1"}),
            "spec.capacity[example.com/a]",
            "-1",
            "give a quantity of at least zero",
        ),
        (
            overlay(priceAdjustment="-150%"),
            "spec.priceAdjustment",
            "-150%",
            "a price cannot be negative: do not go below -100%",
        ),
        (node_class(instanceStorePolicy="RAID5"), "spec.instanceStorePolicy", "RAID5", "use RAID0"),
        (
            node_class(capacityReservationSelectorTerms=[{"ownerID": "123456789012"}]),
            "spec.capacityReservationSelectorTerms[0]",
            "{ownerID: 123456789012}",
            "give id alone, or tags or instanceMatchCriteria (with ownerID, if wanted)",
        ),
        (
            node_class(subnetSelectorTerms=[{"id": "subnet-1", "tags": {"a": "b"}}]),
            "spec.subnetSelectorTerms[0]",
            "{id: subnet-1, tags: {a: b}}",
            "give exactly one of tags, id",
        ),
        (
            node_class(amiSelectorTerms=[{"id": "ami-1", "name": "mine"}], amiFamily="AL2"),
            "spec.amiSelectorTerms[0]",
            "{id: ami-1, name: mine}",
            "give alias alone, or id alone, or ssmParameter alone, or tags or name (with owner, if wanted)",
        ),
        (
            overlay(requirements=[{"key": "a", "operator": "In", "values": ["b"], "minValues": 1}]),
            "spec.requirements[0].minValues",
            "1",
            "there is no such field; remove it",
        ),
        (
            pod("a", affinity=NO_VALUES),
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
            ".matchExpressions[0].values",
            "",
            "the operator In needs at least one value",
        ),
        (
            volume(accessModes=["ReadWriteOnce"], capacity={"storage": "1Gi"}),
            "spec",
            "",
            "a volume has exactly one source, such as csi",
        ),
        ({"apiVersion": "v1", "kind": "Pod"}, "metadata.name", "", "it is missing: name the object"),
    ],
)
def test_the_written_value_and_a_remedy_for_it_are_shown(
    manifest: dict[str, Any], field: str, value: str, remedy: str
) -> None:
    (found,) = [one for one in read_objects(manifest).errors if one.field == field]

    assert (found.value, found.remedy) == (value, remedy)


def test_the_former_family_ubuntu_is_refused_with_its_replacement() -> None:
    found = read_objects(node_class(amiFamily="Ubuntu", amiSelectorTerms=[{"id": "ami-1"}])).errors

    assert [one.field for one in found] == ["spec.amiFamily"]
    assert "set AL2, whose bootstrap script the EKS images of Ubuntu have" in found[0].remedy
    assert "/dev/sda1 in blockDeviceMappings; or set Custom" in found[0].remedy

    instead = node_class(
        amiFamily="AL2",
        amiSelectorTerms=[{"id": "ami-1"}],
        blockDeviceMappings=[{"deviceName": "/dev/sda1", "rootVolume": True, "ebs": {"volumeSize": "20Gi"}}],
    )
    assert read_objects(instead).errors == ()


def test_forms_of_a_text_are_its_scalars_and_objects() -> None:
    text = "a: 1.10\nb: {c: [x, 'y']}\n"

    assert {"1.10", "x", "{c: [x, y]}"} <= list_written_forms(text)
    assert "1.2" not in list_written_forms(text)
