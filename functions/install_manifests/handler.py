"""Custom resource: CRDs, admission policies, RBAC and the doorbell's webhook, by server-side apply.

The function applies only the manifests of its own package, and only if their digest is the one in the template. CRDs
are updated and never deleted: the deletion of a CRD deletes every NodePool and every claim. On Delete the webhook is
removed first, so that the API server does not call a doorbell that no longer exists.
"""

import hashlib
import json
import logging
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from joiner.adapters.custom_resource import Answer, LambdaContext, Request, serve

if TYPE_CHECKING:
    from joiner.adapters.kube import Kube
    from joiner.adapters.payload import ClusterFacts
    from joiner.adapters.role_mappings import RoleMapping

PHYSICAL_ID: Final = "joiner-manifests"
PACKAGE: Final = Path(__file__).parent / "manifests"
DOORBELL: Final = "DOORBELL/"
"""The placeholder in the webhooks' URLs for the doorbell's address and token."""

ACCESS_SECONDS: Final = 120.0
"""Time to wait for access. A new access entry takes effect within seconds. A refused token stays refused for two
minutes, so each attempt signs a new one.
"""
ESTABLISHED_SECONDS: Final = 60.0
ADMINISTRATORS: Final = ("system:masters",)
PAUSE_SECONDS: Final = 2.0
SHARED_GROUPS: Final = ("autoscaling.x-k8s.io",)
"""API groups of SIG Autoscaling: a CRD that another program has installed stays as it is."""

Manifest = dict[str, Any]


class WrongPackage(Exception):
    """The package does not have the digest of the template."""


class ForeignDefinitions(Exception):
    """These CRDs have another manager."""


class NotInstalled(Exception):
    """The API server refused a manifest with an error that contains the doorbell's secret; the message is that error
    without it.
    """


class NotAdmitted(Exception):
    """The ConfigMap aws-auth does not map the installer's role to administrators."""


class NeverEstablished(Exception):
    """The API server does not serve a CRD."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Time, as an argument."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def handler(event: Mapping[str, Any], context: LambdaContext) -> None:
    """Answer CloudFormation."""
    serve(event, context, act)


def act(request: Request) -> Answer:
    """Install or remove, in the cluster that the request describes.

    Raises WrongPackage if this package has other manifests than the template.
    """
    from joiner.adapters import environment
    from joiner.adapters.doorbell_rotation import READ_AGAIN_AFTER
    from joiner.adapters.payload import ClusterFacts

    if request.kind == "Delete":
        return delete(request, environment.kube, Clock())
    wanted = request.properties
    facts = ClusterFacts(
        wanted["Cluster"], wanted["Endpoint"], wanted["CertificateAuthority"], version="", service_cidr=""
    )
    if package_digest(PACKAGE) != wanted["Manifests"]:
        raise WrongPackage(
            "the manifests in this function's package are not those of the template: deploy again from one checkout"
        )
    kube, clock = environment.kube(facts), Clock()
    await_access(kube, clock, wanted.get("Mappings", ""))
    map_roles(kube, wanted.get("Mappings", ""))
    rotation = environment.doorbell_rotation()
    begun = rotation.begin(secrets.token_urlsafe(32))
    if begun.current:  # the webhook uses the next secret: every sandbox of the doorbell must have read it first
        clock.sleep(READ_AGAIN_AFTER.total_seconds() + 1)
    door = WebhookEndpoint(f"{wanted['DoorbellUrl']}/{begun.following}/", wanted.get("DoorbellCa", ""))
    with hide_secret(begun.following):
        install(kube, PACKAGE, door, clock)
    rotation.finish(begun, environment.now())
    return Answer(PHYSICAL_ID)


@contextmanager
def hide_secret(secret: str) -> Iterator[None]:
    """Remove the secret from errors: CloudFormation stores the reason of a failure, and the function's log stores its
    traceback.
    """
    try:
        yield
    except Exception as reason:
        if secret not in str(reason):
            raise
        message = f"{type(reason).__name__}: {str(reason).replace(secret, '[the secret]')}"
        raise NotInstalled(message) from None  # a traceback with its cause would contain the secret


def delete(request: Request, connect: "Callable[[ClusterFacts], Kube]", clock: Clock) -> Answer:
    """Remove what was installed. After a failed Create, remove as much as the cluster allows.

    The cluster that made the Create fail would make this Delete fail, too, and keep the stack in ROLLBACK_FAILED.
    Little stays behind: a Create applies the webhook, the only active part, last.
    """
    from joiner.adapters.payload import ClusterFacts

    try:
        wanted = request.properties
        facts = ClusterFacts(
            wanted["Cluster"], wanted["Endpoint"], wanted["CertificateAuthority"], version="", service_cidr=""
        )
        if not _is_gone(facts.endpoint):
            remove(connect(facts), PACKAGE, clock, wanted.get("Mappings", ""))
    except Exception:
        if request.physical_id == PHYSICAL_ID:
            raise
        logging.getLogger(__name__).exception("what a failed Create may have left is not removed")
    return Answer(request.physical_id or PHYSICAL_ID)


@dataclass(frozen=True, slots=True)
class WebhookEndpoint:
    """The URL that the API server calls, without the kind of ring, and the CA of its certificate (PEM; empty: a public
    CA).
    """

    url: str
    ca: str = ""

    def fitted(self, webhook: Manifest) -> Manifest:
        """Return the webhook with its real address."""
        import base64

        config = webhook["clientConfig"]
        client = {"url": self.url + config["url"].removeprefix(DOORBELL)}
        return {
            **webhook,
            "clientConfig": client | ({"caBundle": base64.b64encode(self.ca.encode()).decode()} if self.ca else {}),
        }


def install(kube: "Kube", package: Path, door: WebhookEndpoint, clock: Clock) -> None:
    """Apply the CRDs and wait until they are served; then apply the policies, RBAC, and last the webhook, which takes
    effect at once.
    """
    definitions = _own_definitions(kube, _read(package / "crds"))
    for definition in definitions:
        kube.apply(definition)
    for definition in definitions:
        _await_established(kube, definition["metadata"]["name"], clock)
    _apply_policies(kube, _read(package / "policies"))
    for manifest in _read(package / "rbac"):
        kube.apply(manifest)
    for manifest in _read(package / "webhooks"):
        kube.apply({**manifest, "webhooks": [door.fitted(webhook) for webhook in manifest["webhooks"]]})


def remove(kube: "Kube", package: Path, clock: Clock, mappings: str = "") -> None:
    """Delete the webhook first, then release claims, nodes and classes, then delete RBAC and its policies.

    CRDs and the objects that users wrote stay. The roles in aws-auth are removed last, the installer's own among them.
    """
    from functions.install_manifests.object_release import release_objects
    from joiner.adapters.kube_errors import NotFound
    from joiner.adapters.kube_kinds import KINDS

    await_access(kube, clock, mappings)

    def delete(manifest: Manifest) -> None:
        with suppress(NotFound):
            metadata, kind = manifest["metadata"], KINDS[manifest["apiVersion"], manifest["kind"]]
            kube.delete(kind, metadata["name"], namespace=metadata.get("namespace", ""))

    for manifest in _read(package / "webhooks"):
        delete(manifest)
    logging.getLogger(__name__).info("released %d claims, nodes and node classes", release_objects(kube))
    for manifest in (*reversed(_read(package / "rbac")), *reversed(_read(package / "policies"))):
        delete(manifest)
    unmap_roles(kube, mappings)


def map_roles(kube: "Kube", mappings: str) -> None:
    """Map the roles of functions and nodes in aws-auth; `mappings` is empty for a cluster with access entries."""
    if not mappings:
        return
    from joiner.adapters import aws_auth
    from joiner.adapters.role_mappings import RoleMapping

    asked = json.loads(mappings)
    windows = asked.get("windowsNodes", ())  # a deployment of an earlier version has no such key
    functions = _functions(asked)
    nodes = [RoleMapping.of_nodes(role, windows=role in windows) for role in asked["nodes"]]
    if aws_auth.write(kube, lambda mapped: aws_auth.map_roles(mapped, functions, nodes)):
        logging.getLogger(__name__).info("mapped %d roles in aws-auth", len(functions) + len(nodes))


def unmap_roles(kube: "Kube", mappings: str) -> None:
    """Remove the roles from aws-auth. Of those of nodes only the one that a deployment created is removed, and only if
    no EC2 instance is a node: a node group of others may use a role and have no Node, and no Node names its role.
    """
    if not mappings:
        return
    from joiner.adapters import aws_auth
    from joiner.adapters.kube_kinds import NODES
    from joiner.names import COMPUTE_TYPE

    asked = json.loads(mappings)
    functions = [each.arn for each in _functions(asked)]
    nodes = [str(each["metadata"]["name"]) for each in kube.list_metadata(NODES, labels=f"!{COMPUTE_TYPE}")]
    unused = [] if nodes else [asked.get("ownNode", "")]  # a deployment of an earlier version has no such key
    kept: list[str] = []

    def change(mapped: aws_auth.MappedRoles) -> aws_auth.MappedRoles:
        left = aws_auth.unmap_roles(mapped, functions, unused_nodes=unused)
        kept[:] = sorted(left.ours)  # a conflict makes this run again, with another content
        return left

    aws_auth.write(kube, change)
    if kept:
        users = f"{len(nodes)} nodes, for example {min(nodes)}," if nodes else "node groups that are scaled to zero"
        message = f"these roles of nodes stay in aws-auth, because {users} may have them: {', '.join(kept)}"
        logging.getLogger(__name__).warning(message)


def _functions(asked: Mapping[str, Any]) -> "list[RoleMapping]":
    from joiner.adapters.role_mappings import RoleMapping

    installer = RoleMapping.of_sessions(asked["installer"], ADMINISTRATORS)
    return [installer, *(RoleMapping.of_sessions(each["role"], each["groups"]) for each in asked["functions"])]


def _apply_policies(kube: "Kube", policies: Sequence[Manifest]) -> None:
    """Apply the policies. Before Kubernetes 1.30 there are no admission policies: then RBAC and the functions' own
    checks limit Joiner.
    """
    from joiner.adapters.kube_errors import NotFound

    for manifest in policies:
        try:
            kube.apply(manifest)
        except NotFound:
            message = (
                "this cluster serves no ValidatingAdmissionPolicy (Kubernetes before 1.30): nothing but "
                "RBAC bounds Joiner here"
            )
            logging.getLogger(__name__).warning(message)
            return
    _delete_former(kube, policies)


def _delete_former(kube: "Kube", policies: Sequence[Manifest]) -> None:
    """Delete policies of an earlier version that this version does not have; otherwise they would still refuse
    requests.
    """
    from joiner.adapters.kube_errors import NotFound
    from joiner.adapters.kube_kinds import ADMISSION_POLICIES, ADMISSION_POLICY_BINDINGS
    from joiner.names import MANAGED_BY

    wanted = {(manifest["kind"], manifest["metadata"]["name"]) for manifest in policies}
    for kind in (ADMISSION_POLICY_BINDINGS, ADMISSION_POLICIES):
        for name in [each["metadata"]["name"] for each in kube.list(kind, labels=f"{MANAGED_BY}=joiner")]:
            if name.startswith("joiner-") and (kind.kind, name) not in wanted:
                with suppress(NotFound):
                    kube.delete(kind, name)


def await_access(kube: "Kube", clock: Clock, mappings: str = "") -> None:
    """Wait until the cluster accepts this role as an administrator; raise the last refusal, or NotAdmitted where an
    administrator must map the role first.
    """
    from joiner.adapters.kube_errors import Forbidden, Unauthorized, Unreachable
    from joiner.adapters.kube_kinds import CLUSTER_ROLES

    deadline = clock.now() + ACCESS_SECONDS
    while True:
        try:
            kube.list(CLUSTER_ROLES, labels="app.kubernetes.io/managed-by=joiner")
            return
        except (Forbidden, Unauthorized, Unreachable) as refusal:
            if clock.now() > deadline:
                if mappings and not isinstance(refusal, Unreachable):
                    raise NotAdmitted(_not_admitted(json.loads(mappings)["installer"])) from refusal
                raise
            clock.sleep(PAUSE_SECONDS)
            kube.renew_token()


def _not_admitted(role: str) -> str:
    return (
        f"the cluster does not know {role} as an administrator, and its aws-auth only an administrator can write: run "
        "joiner admit-installer --cluster NAME --region REGION once, and deploy again (docs/settings.md, Clusters with "
        "aws-auth)"
    )


def package_digest(package: Path) -> str:
    """Return the digest of all manifests, in order of path: paths and bytes, as `infra/manifest_installation.py`
    computes it.
    """
    digest = hashlib.sha256()
    for path in _files(package):
        digest.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _files(package: Path) -> list[Path]:
    return sorted(package.rglob("*.yaml"), key=lambda path: path.relative_to(package).as_posix())


def _read(folder: Path) -> list[Manifest]:
    import yaml

    def documents() -> Iterator[Manifest]:
        for path in _files(folder):
            yield from (document for document in yaml.safe_load_all(path.read_text(encoding="utf-8")) if document)

    return list(documents())


def _own_definitions(kube: "Kube", definitions: Sequence[Manifest]) -> list[Manifest]:
    """Return the CRDs to install: all but those of SHARED_GROUPS that another program manages.

    Raises ForeignDefinitions for CRDs of a running Karpenter: it would launch an instance for each Joiner claim.
    """
    from joiner.adapters.kube_kinds import CUSTOM_RESOURCE_DEFINITIONS
    from joiner.names import MANAGED_BY

    ours = {definition["metadata"]["name"] for definition in definitions}
    others = {
        there["metadata"]["name"]
        for there in kube.list(CUSTOM_RESOURCE_DEFINITIONS)
        if there["metadata"]["name"] in ours and (there["metadata"].get("labels") or {}).get(MANAGED_BY) != "joiner"
    }
    foreign = sorted(name for name in others if name.partition(".")[2] not in SHARED_GROUPS)
    if foreign:
        raise ForeignDefinitions(
            f"{', '.join(foreign)}: another program manages these CRDs, probably Karpenter. Uninstall it, keep "
            f"its objects, and hand the "
            f"CRDs over: kubectl label crd {' '.join(foreign)} {MANAGED_BY}=joiner --overwrite"
        )
    return [definition for definition in definitions if definition["metadata"]["name"] not in others]


def _await_established(kube: "Kube", name: str, clock: Clock) -> None:
    from joiner.adapters.kube_kinds import CUSTOM_RESOURCE_DEFINITIONS

    deadline = clock.now() + ESTABLISHED_SECONDS
    while True:
        # A new CRD has this key with an empty value
        conditions = kube.get(CUSTOM_RESOURCE_DEFINITIONS, name).get("status", {}).get("conditions") or ()
        if any(each["type"] == "Established" and each["status"] == "True" for each in conditions):
            return
        if clock.now() > deadline:
            message = "; ".join(f"{each['type']} {each['status']}: {each.get('message', '')}" for each in conditions)
            raise NeverEstablished(
                f"{name} is not served after {ESTABLISHED_SECONDS:.0f} s ({message or 'no condition'})"
            )
        clock.sleep(PAUSE_SECONDS / 10)


def _is_gone(endpoint: str) -> bool:
    """Return whether the cluster is deleted: its endpoint's name no longer resolves. A cluster that does not answer
    still exists.
    """
    from urllib.parse import urlsplit

    parts = urlsplit(endpoint)
    try:
        socket.getaddrinfo(parts.hostname, parts.port or 443)
    except socket.gaierror as reason:
        return reason.errno == socket.EAI_NONAME
    return False
