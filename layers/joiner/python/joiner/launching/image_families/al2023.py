"""Amazon Linux 2023: nodeadm reads MIME parts of NodeConfig documents.

Later parts take precedence in nodeadm. Joiner's part is a NodeConfig in JSON, which is valid YAML with every value
quoted. Sources: nodeadm's API reference (node.eks.aws/v1alpha1); Amazon EKS user guide, "Retrieve recommended Amazon
Linux AMI IDs".
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from joiner.catalogue.ec2_instance_types import ARCHITECTURES
from joiner.launching.image_families.image_family import encrypted_volume, refuse, warn
from joiner.launching.image_families.image_variants import LATEST, VARIANTS, ImageParameter
from joiner.launching.image_families.mime_parts import NODE_CONFIG, MimePart, read_user_parts, write_multipart
from joiner.launching.image_families.node_settings import NodeSettings, UserDataRefused
from joiner.launching.image_families.nodeadm_documents import find_settings_without_effect, read_user_node_config
from joiner.launching.image_families.script_parts import count_lines_before, find_part_problems, read_readable_parts
from joiner.pools import NodeClass, NodeClassProblem
from joiner.pools.node_class import ImageFamily


class AmazonLinux2023:
    """See ``FamilyOfImages``."""

    name: ImageFamily = "AL2023"
    kubernetes_versions = ""
    devices = (encrypted_volume("/dev/xvda", 20),)

    def list_parameters(self, version: str, release: str) -> tuple[ImageParameter, ...]:
        """Return the SSM parameters of the family's images."""
        return tuple(
            ImageParameter.of(_path(version, architecture, variant, release), arch, variant)
            for variant in VARIANTS
            for architecture, arch in ARCHITECTURES.items()
            if (architecture, variant) != ("arm64", "neuron")  # Amazon builds none
        )

    def explain_missing_images(self, version: str) -> str:  # noqa: ARG002 - the interface
        """Return nothing: every version has images."""
        return ""

    def find_problems(self, node_class: NodeClass) -> Iterator[NodeClassProblem]:
        """Yield user data that nodeadm or cloud-init cannot read, and settings in it that have no effect."""
        problems = [*find_part_problems(node_class)]
        yield from problems
        if any(problem.severity == "error" for problem in problems):
            return
        configs = [text for part, text in read_readable_parts(node_class) if part.media_type == NODE_CONFIG]
        try:
            specs = [read_user_node_config(text, count_lines_before(node_class, text)) for text in configs]
        except UserDataRefused as refused:
            yield refuse(node_class, "userData", refused.reason, str(refused))
            return
        for reason, message in (found for spec in specs for found in find_settings_without_effect(spec, node_class)):
            yield warn(node_class, "userData", reason, message)

    def write_user_data(self, settings: NodeSettings) -> str:
        """Return the user's parts and a NodeConfig for nodeadm, as MIME multipart."""
        config = MimePart(NODE_CONFIG, json.dumps(build_node_config(settings), indent=2))
        return write_multipart([*read_user_parts(settings.own), config])


def _path(version: str, architecture: str, variant: str, release: str) -> str:
    named = (
        "recommended" if release == LATEST else f"amazon-eks-node-al2023-{architecture}-{variant}-{version}-{release}"
    )
    return f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/{architecture}/{variant}/{named}/image_id"


def build_node_config(settings: NodeSettings) -> dict[str, Any]:
    """Return the NodeConfig for nodeadm; every value is checked."""
    spec: dict[str, Any] = {
        "cluster": {
            "name": settings.cluster_name,
            "apiServerEndpoint": settings.endpoint,
            "certificateAuthority": settings.certificate_authority,
            "cidr": settings.service_cidr,
        },
        "kubelet": {
            "config": {
                **{field: _write_setting(value) for field, value in settings.kubelet.items()},
                "registerWithTaints": [taint.to_kube() for taint in settings.checked_taints()],
            },
            "flags": [f"--node-labels={','.join(f'{key}={value}' for key, value in settings.checked_labels())}"],
        },
    }
    if settings.raid0:
        spec["instance"] = {"localStorage": {"strategy": "RAID0"}}
    return {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}


def _write_setting(setting: Any) -> Any:
    """Return a setting as the kubelet decodes it: amounts and thresholds are texts, and it stops at a number."""
    return {key: str(one) for key, one in setting.items()} if isinstance(setting, Mapping) else setting
