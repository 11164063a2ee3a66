"""Runs the command as a user does, and returns its output."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from joiner_cli.commands import app

AMD64 = {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}


@dataclass(frozen=True)
class CommandResult:
    exit_code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def joiner(*arguments: object, stdin: str = "") -> CommandResult:
    """Run the command; exceptions are raised, so that a traceback fails the test."""
    result = CliRunner().invoke(app, [str(one) for one in arguments], input=stdin, catch_exceptions=False)
    return CommandResult(result.exit_code, result.stdout, result.stderr)


def write(folder: Path, *manifests: Mapping[str, Any] | str) -> Path:
    """Write one file with these documents."""
    path = folder / "manifests.yaml"
    path.write_text(
        "\n---\n".join(one if isinstance(one, str) else json.dumps(one) for one in manifests), encoding="utf-8"
    )
    return path


def pool(name: str = "default", requirements: Sequence[Mapping[str, Any]] = (), **spec: Any) -> dict[str, Any]:
    ref = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    node = {"nodeClassRef": ref, "requirements": list(requirements), **spec.pop("node", {})}
    disruption = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": {"spec": node}, "disruption": disruption, **spec},
    }


def pod(name: str, cpu: str = "100m", memory: str = "128Mi", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def deployment(name: str, replicas: int, cpu: str = "100m", memory: str = "128Mi", **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": name}}, "spec": pod("", cpu, memory, **spec)["spec"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


def node_class(status: Mapping[str, Any] | None = None, /, **spec: Any) -> dict[str, Any]:
    """Return the class of `pool`; with the status of a cluster if one is given."""
    tags = [{"tags": {"a": "b"}}]
    images = {"amiSelectorTerms": [{"alias": "al2023@latest"}], "role": "nodes"}
    made: dict[str, Any] = {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {**images, "subnetSelectorTerms": tags, "securityGroupSelectorTerms": tags, **spec},
    }
    return made if status is None else {**made, "status": status}
