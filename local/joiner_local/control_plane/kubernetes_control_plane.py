"""A Kubernetes control plane on loopback: etcd, kube-apiserver, kube-scheduler, kube-controller-manager, and KWOK for
kubelets.

It has what a fake lacks: admission webhooks, validation by CEL, watches, evictions, NodeRestriction, a scheduler. Its
settings are those of EKS where a client can see them: RBAC is on, a webhook reviews tokens, nodes may write only their
own objects, and no token gets `system:masters`.
"""

import datetime as dt
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import urllib3

from joiner_local.control_plane import kube_api, kubeconfig
from joiner_local.control_plane.access_policies import bindings
from joiner_local.control_plane.audit_policy import LOG, write_policy
from joiner_local.control_plane.control_plane_binaries import Binaries
from joiner_local.control_plane.kube_api import ApiError, KubeApi
from joiner_local.control_plane.kubeconfig import ApiServerEndpoint
from joiner_local.control_plane.pki import CertificateAuthority, KeyPair
from joiner_local.stack.stack_processes import Program, ProgramFailed, Programs
from joiner_local.tooling.command_progress import Say

STAGES: Final = Path(__file__).parent / "stages.yaml"
SERVICE_CIDR: Final = "10.100.0.0/16"  # what EKS chooses if its VPC has no address of 10.0.0.0/8
SERVICE_ADDRESS: Final = "10.100.0.1"
# Heap growth of a Go program before a garbage collection: four times the default, for a fifth of the time
GARBAGE_PERCENT: Final = "400"
LISTENERS: Final = ("etcd", "etcd-peer", "apiserver", "scheduler", "manager", "kwok")


def free_ports(count: int) -> list[int]:
    """Return ports that are free now; requested together, so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@dataclass(slots=True)
class ControlPlane:
    """One cluster under `root`. `begin` starts what can start at once, `populate` the rest, `wait_ready` waits for all.

    `arguments` are more flags for a program, by its name: `{"kube-scheduler": ["--kube-api-qps=2000"]}`.
    """

    root: Path
    cluster: str
    binaries: Binaries
    programs: Programs
    say: Say
    arguments: Mapping[str, Sequence[str]] = field(default_factory=dict)
    _ports: dict[str, int] = field(default_factory=dict)
    _authority: CertificateAuthority = field(init=False)
    _service_accounts: KeyPair = field(init=False)

    @property
    def endpoint(self) -> ApiServerEndpoint:
        return ApiServerEndpoint(f"https://127.0.0.1:{self._ports['apiserver']}", self._authority.certificate)

    @property
    def etcd(self) -> str:
        """The address of etcd, for tests that discard old versions."""
        return f"http://127.0.0.1:{self._ports['etcd']}"

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    def admin(self) -> KubeApi:
        return kube_api.admin(self.endpoint, self.root / "pki")

    def begin(self, *, authenticator: str) -> None:
        """Start etcd and the API server, which sends every bearer token to the `authenticator` (a URL)."""
        self._ports = dict(zip(LISTENERS, free_ports(len(LISTENERS)), strict=True))
        self._start("etcd", *self._etcd())
        self._authority = CertificateAuthority(self.root / "pki", now=dt.datetime.now(dt.UTC))
        self._service_accounts = self._authority.signing_pair("service-accounts")
        webhook = kubeconfig.write_webhook(
            self.root / "authenticator.kubeconfig", name="authenticator", url=authenticator
        )
        self._start("kube-apiserver", *self._apiserver(webhook))
        self._user(self.kubeconfig, "admin", "kubernetes-admin", "system:masters")

    def populate(self) -> None:
        """Start all other programs, as soon as the API server responds."""
        admin = self.admin()
        self._wait("API server", lambda: admin.get("/readyz", timeout=2))
        self._start("kube-scheduler", *self._component("scheduler", "system:kube-scheduler"))
        self._start(
            "kube-controller-manager", *self._component("manager", "system:kube-controller-manager"), *self._manager()
        )
        self._start("kwok", *self._kwok())
        for manifest in bindings():
            plural = {"ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings"}[manifest["kind"]]
            path = f"/apis/rbac.authorization.k8s.io/v1/{plural}/{manifest['metadata']['name']}"
            admin.apply(path, manifest, manager="eks")

    def wait_ready(self) -> None:
        """Wait until pods can be created and will be scheduled."""
        admin = self.admin()
        self._wait("scheduler", lambda: _healthy("https", self._ports["scheduler"], "/readyz"))
        self._wait("KWOK", lambda: _healthy("http", self._ports["kwok"], "/healthz"))
        # The last object that the controller manager creates before pods can be created.
        self._wait("controller manager", lambda: admin.get("/api/v1/namespaces/default/serviceaccounts/default"))

    def _start(self, name: str, *flags: str) -> Program:
        command = [self.binaries[name], *flags, *self.arguments.get(name, ())]
        return self.programs.start(name, command, env={**os.environ, "GOGC": GARBAGE_PERCENT})

    def _etcd(self) -> list[str]:
        client, peer = (f"http://127.0.0.1:{self._ports[name]}" for name in ("etcd", "etcd-peer"))
        return [
            "--name=local",
            f"--data-dir={self.root / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=local={peer}",
            "--unsafe-no-fsync",  # nothing here remains after the stack
            "--log-level=warn",
        ]

    def _apiserver(self, webhook: Path) -> list[str]:
        names = (
            "127.0.0.1",
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            SERVICE_ADDRESS,
        )
        serving = self._authority.server("apiserver", *names)
        return [
            "--bind-address=127.0.0.1",
            f"--secure-port={self._ports['apiserver']}",
            f"--etcd-servers=http://127.0.0.1:{self._ports['etcd']}",
            f"--tls-cert-file={serving.certificate}",
            f"--tls-private-key-file={serving.key}",
            f"--client-ca-file={self._authority.certificate}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--endpoint-reconciler-type=none",  # the `kubernetes` service cannot point at loopback
            f"--service-cluster-ip-range={SERVICE_CIDR}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._service_accounts.certificate}",
            f"--service-account-signing-key-file={self._service_accounts.key}",
            f"--authentication-token-webhook-config-file={webhook}",
            "--authentication-token-webhook-version=v1",
            "--allow-privileged=true",
            "--profiling=false",
            f"--audit-policy-file={write_policy(self.root / 'audit-policy.json')}",
            f"--audit-log-path={self.programs.logs / LOG}",
            "--audit-log-mode=blocking",  # an event is in the log before its request is answered
        ]

    def _component(self, name: str, user: str) -> list[str]:
        config = self._user(self.root / f"{name}.kubeconfig", name, user)
        return [
            f"--kubeconfig={config}",
            f"--authentication-kubeconfig={config}",
            f"--authorization-kubeconfig={config}",
            "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._ports[name]}",
            "--leader-elect=false",
        ]

    def _manager(self) -> list[str]:
        return [
            f"--service-account-private-key-file={self._service_accounts.key}",
            f"--root-ca-file={self._authority.certificate}",
            "--use-service-account-credentials=true",
            "--allocate-node-cidrs=false",
            # With the default of 20 a second its controllers start four seconds later.
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
        ]

    def _kwok(self) -> list[str]:
        config = self._user(self.root / "kwok.kubeconfig", "kwok", "kwok", "system:masters")
        return [
            f"--kubeconfig={config}",
            f"--config={STAGES}",
            "--manage-all-nodes=false",
            "--manage-nodes-with-label-selector=local.joiner.dev/kubelet=kwok",
            f"--server-address=127.0.0.1:{self._ports['kwok']}",  # without it, it listens on all addresses
            "--node-ip=127.0.0.1",
            f"--node-port={self._ports['kwok']}",
            "--node-lease-duration-seconds=40",
        ]

    def _user(self, path: Path, name: str, user: str, *groups: str) -> Path:
        pair = self._authority.client(name, user, *groups)
        return kubeconfig.write(path, cluster=self.cluster, endpoint=self.endpoint, user=user, pair=pair)

    def _wait(self, what: str, probe: Callable[[], object], *, limit: float = 60.0) -> None:
        """Wait until `probe` succeeds; a program that ends meanwhile gives the better message."""
        deadline = time.monotonic() + limit
        last: Exception | None = None
        while time.monotonic() < deadline:
            try:
                probe()
            except (ApiError, urllib3.exceptions.HTTPError) as error:
                last = error
                self.programs.check()
                time.sleep(0.03)
            else:
                self.say(f"{what} ready")
                return
        raise ProgramFailed(f"{what} was not ready after {limit:.0f} s: {last}")


def _healthy(scheme: str, port: int, path: str) -> None:
    """Raise an error unless a component is healthy. Components use certificates that they sign themselves; only the
    status is read.
    """
    urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    with urllib3.PoolManager(cert_reqs="CERT_NONE", retries=False) as http:
        answer = http.request("GET", f"{scheme}://127.0.0.1:{port}{path}", timeout=2)
    if answer.status != 200:
        raise urllib3.exceptions.HTTPError(f"{answer.status}: {answer.data[:200]!r}")
