"""The CRDs refuse values for IAM and user data that are not plain names."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from infra.manifest_files import MANIFESTS

NAMES = [
    ("karpenter.k8s.aws_ec2nodeclasses", "instanceProfile"),
    ("karpenter.k8s.aws_ec2nodeclasses", "role"),
    ("karpenter.k8s.aws_awsnodetemplates", "instanceProfile"),
    ("karpenter.sh_provisioners", "instanceProfile"),
]


@pytest.mark.parametrize(("crd", "field"), NAMES)
def test_a_role_or_an_instance_profile_is_a_plain_name_as_iam_has_it(crd: str, field: str) -> None:
    definition = yaml.safe_load((MANIFESTS / f"crds/{crd}.yaml").read_text())
    specs = [version["schema"]["openAPIV3Schema"]["properties"]["spec"] for version in definition["spec"]["versions"]]
    patterns = [each["pattern"] for spec in specs for each in _fields(spec, field)]

    assert len(patterns) == len(specs)
    for pattern in patterns:
        assert re.search(pattern, "KarpenterNodeRole-joiner_demo+=,.@", re.ASCII)
        for other in ("arn:aws:iam::123456789012:role/Node", "team/Node", "a b", "../Node", ""):
            assert not re.search(pattern, other, re.ASCII), other


def _fields(schema: Mapping[str, Any], name: str) -> Iterator[Mapping[str, Any]]:
    """Return the fields of this name at any depth."""
    for key, each in schema.get("properties", {}).items():
        if key == name:
            yield each
        yield from _fields(each, name)
