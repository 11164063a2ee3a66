"""Kubeconfig files of the local cluster: self-contained, so they may be copied anywhere on the machine."""

import base64
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from joiner_local.control_plane.pki import KeyPair


@dataclass(frozen=True, slots=True)
class ApiServerEndpoint:
    """The URL of an API server and the certificate authority that signs its certificate."""

    url: str
    authority: Path

    def authority_data(self) -> str:
        """Return the authority's certificate as Kubernetes and EKS write it: base64 of the PEM."""
        return base64.b64encode(self.authority.read_bytes()).decode()


def write(path: Path, *, cluster: str, endpoint: ApiServerEndpoint, user: str, pair: KeyPair) -> Path:
    """Write a kubeconfig for one user of one cluster, readable by its owner only."""
    credentials = {
        "client-certificate-data": base64.b64encode(pair.certificate.read_bytes()).decode(),
        "client-key-data": base64.b64encode(pair.key.read_bytes()).decode(),
    }
    return _write(
        path,
        cluster,
        {"server": endpoint.url, "certificate-authority-data": endpoint.authority_data()},
        user,
        credentials,
    )


def write_webhook(path: Path, *, name: str, url: str) -> Path:
    """Write the kubeconfig with which the API server calls a webhook: a URL on loopback, no credentials."""
    return _write(path, name, {"server": url}, "apiserver", {})


def _write(path: Path, cluster: str, where: dict[str, str], user: str, credentials: dict[str, str]) -> Path:
    config: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": where}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": user}}],
        "current-context": cluster,
    }
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        yaml.safe_dump(config, file, sort_keys=False)
    fresh.replace(path)
    return path
