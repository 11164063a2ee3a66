"""Rules of volumes about the nodes of their pods ("Persistent Volumes", "Storage Classes", "Ephemeral Volumes",
"Node-specific Volume Limits")."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from tests.plan_checker.amounts import Json, Lists, Spot, amount, key, namespace_of
from tests.plan_checker.node_rules import ZONE, holds, label, selects

EBS_ZONE: Final = "topology.ebs.csi.aws.com/zone"
EBS: Final = "ebs.csi.aws.com"
BY_HAND: Final = "kubernetes.io/no-provisioner"
NETWORK: Final = (
    "efs.csi.aws.com",
    "fsx.csi.aws.com",
    "fsx.openzfs.csi.aws.com",
    "s3.csi.aws.com",
    "nfs.csi.k8s.io",
    "smb.csi.k8s.io",
)
"""Drivers whose volumes every zone can reach, unless they report a topology."""


def check_volumes(spots: Sequence[Spot], placed: frozenset[str], lists: Lists) -> list[str]:
    wrong: list[str] = []
    zones: dict[str, set[str | None]] = defaultdict(set)
    users: dict[str, list[str]] = defaultdict(list)
    reach: dict[str, set[str]] = {}
    for spot in spots:
        attached: dict[str, set[str]] = defaultdict(set)
        before: dict[str, set[str]] = defaultdict(set)
        for pod in spot.pods:
            planned = key(pod) in placed
            for name, claim in volume_claims_of(pod, lists):
                if planned:
                    wrong += [f"{key(pod)}: {why}" for why in check_volume_claim(name, claim, spot, lists)]
                if claim is None:
                    continue
                where = f"{namespace_of(pod)}/{name}"
                if not claim["spec"].get("volumeName"):
                    maker = str((class_of(claim["spec"], lists) or {}).get("provisioner"))
                    if in_a_zone(maker, lists):
                        zones[where].add(label(spot.labels, ZONE))
                    if maker == BY_HAND and planned:
                        could = {
                            one["metadata"]["name"] for one in hand_made(where, claim, lists) if reachable(one, spot)
                        }
                        reach[where] = reach.get(where, could) & could
                if "ReadWriteOncePod" in (claim["spec"].get("accessModes") or ()):
                    users[where].append(key(pod))
                driver, handle = driver_of(where, claim, lists)
                attached[driver].add(handle)
                if not planned:
                    before[driver].add(handle)
        for driver, volumes in attached.items():
            most = limit(spot, driver, lists)
            if volumes > before[driver] and most is not None and len(volumes) > most:
                wrong.append(f"{spot.name}: {len(volumes)} volumes of {driver}, and only {most} can be attached")
    wrong += [
        f"{where}: its pods are in {len(each)} zones, its volume can be in one only"
        for where, each in zones.items()
        if len(each) > 1
    ]
    wrong += [
        f"{where}: is for one pod at a time, and {', '.join(pods)} have it"
        for where, pods in users.items()
        if len(pods) > 1
    ]
    return wrong + [f"{where}: no volume made by hand is left for it" for where in without_one(reach)]


def without_one(reach: dict[str, set[str]]) -> list[str]:
    """Return the claims without a volume, if as many claims as possible get one of the volumes that they can have."""
    owner: dict[str, str] = {}

    def finds(claim: str, asked: set[str]) -> bool:
        for volume in sorted(reach[claim] - asked):
            asked.add(volume)
            if volume not in owner or finds(owner[volume], asked):
                owner[volume] = claim
                return True
        return False

    return [claim for claim in sorted(reach) if not finds(claim, set())]


def volume_claims_of(pod: Json, lists: Lists) -> list[tuple[str, Json | None]]:
    """Return the claims that a pod mounts, including those of its ephemeral volumes, which may not exist yet."""
    found: list[tuple[str, Json | None]] = []
    known = {(namespace_of(one), one["metadata"]["name"]): one for one in lists.get("persistentvolumeclaims") or ()}
    for volume in pod["spec"].get("volumes") or ():
        if volume.get("persistentVolumeClaim"):
            name = volume["persistentVolumeClaim"]["claimName"]
            found.append((name, known.get((namespace_of(pod), name))))
        elif volume.get("ephemeral"):
            name = f"{pod['metadata']['name']}-{volume['name']}"
            made = {"metadata": {"name": name}, "spec": volume["ephemeral"]["volumeClaimTemplate"]["spec"]}
            found.append((name, known.get((namespace_of(pod), name), made)))
    return found


def check_volume_claim(name: str, claim: Json | None, spot: Spot, lists: Lists) -> list[str]:
    if claim is None:
        return [f"its claim {name} does not exist"]
    if claim["metadata"].get("deletionTimestamp") or (claim.get("status") or {}).get("phase") == "Lost":
        return [f"its claim {name} cannot be used"]
    spec = claim["spec"]
    if spec.get("volumeName"):
        volume = find(lists, "persistentvolumes", spec["volumeName"])
        usable = volume is not None and reachable(volume, spot)
        return [] if usable else [f"the volume of its claim {name} cannot be used on {spot.name}"]
    chosen = (claim["metadata"].get("annotations") or {}).get("volume.kubernetes.io/selected-node")
    if chosen and chosen != spot.name and find(lists, "nodes", chosen):
        return [f"the volume of its claim {name} is being made for {chosen}"]
    return check_unbound(name, claim, spot, lists)


def check_unbound(name: str, claim: Json, spot: Spot, lists: Lists) -> list[str]:
    storage = class_of(claim["spec"], lists)
    if storage is None or storage.get("volumeBindingMode") != "WaitForFirstConsumer":
        return [f"its claim {name} is not bound"]
    if any(reachable(one, spot) for one in hand_made(f"{namespace_of(claim)}/{name}", claim, lists)):
        return []
    if storage.get("provisioner") == BY_HAND:
        return [f"no volume for its claim {name} can be used on {spot.name}"]
    terms = storage.get("allowedTopologies")
    if terms and not any(
        all(at(one["key"], spot) in one["values"] for one in term.get("matchLabelExpressions") or ()) for term in terms
    ):
        return [f"a volume for its claim {name} cannot be made where {spot.name} is"]
    return []


def in_a_zone(maker: str, lists: Lists) -> bool:
    """Return whether a volume that this driver will create belongs to the zone where it is created: by the topology
    that the driver reports on any node, or by the list of known drivers."""
    drivers = [
        one
        for node in lists.get("csinodes") or ()
        for one in (node.get("spec") or {}).get("drivers") or ()
        if one.get("name") == maker
    ]
    return maker != BY_HAND and (any(one.get("topologyKeys") for one in drivers) if drivers else maker not in NETWORK)


def hand_made(where: str, claim: Json, lists: Lists) -> list[Json]:
    """Return the volumes that the claim may be bound to, in all domains."""
    spec, storage = claim["spec"], class_of(claim["spec"], lists)
    called = storage["metadata"]["name"] if storage else None
    wanted = amount(((spec.get("resources") or {}).get("requests") or {}).get("storage", "0"))
    found, kept = [], []
    for volume in lists.get("persistentvolumes") or ():
        own: Json = volume.get("spec") or {}
        owner = own.get("claimRef")
        alike = own.get("storageClassName") == called and own.get("volumeMode", "Filesystem") == spec.get(
            "volumeMode", "Filesystem"
        )
        alike = alike and set(spec.get("accessModes") or ()) <= set(own.get("accessModes") or ())
        if not alike or amount((own.get("capacity") or {}).get("storage", "0")) < wanted:
            continue
        if owner and f"{owner.get('namespace', 'default')}/{owner.get('name')}" == where:
            kept.append(volume)
        elif not owner and (
            not spec.get("selector") or selects(spec["selector"], volume["metadata"].get("labels") or {})
        ):
            found.append(volume)
    return kept or found


def reachable(volume: Json, spot: Spot) -> bool:
    labels = volume["metadata"].get("labels") or {}
    if ZONE in labels and label(spot.labels, ZONE) not in labels[ZONE].split("__"):
        return False
    required = (volume["spec"].get("nodeAffinity") or {}).get("required")
    if required is None:
        return True
    return any(
        all(
            holds(one["operator"], list(one.get("values") or ()), at(one["key"], spot))
            for one in term.get("matchExpressions") or ()
        )
        for term in required["nodeSelectorTerms"]
    )


def at(name: str, spot: Spot) -> str | None:
    """Return the value of a topology label. The EBS driver has its own label for the zone, which a node gets once the
    driver runs there."""
    return label(spot.labels, ZONE if name == EBS_ZONE else name)


def driver_of(where: str, claim: Json, lists: Lists) -> tuple[str, str]:
    volume = find(lists, "persistentvolumes", claim["spec"].get("volumeName"))
    if volume is None:
        maker = str((class_of(claim["spec"], lists) or {}).get("provisioner"))
        return (EBS if maker == "kubernetes.io/aws-ebs" else maker), where
    spec = volume["spec"]
    if spec.get("csi"):
        return spec["csi"]["driver"], spec["csi"]["volumeHandle"]
    return (EBS, spec["awsElasticBlockStore"]["volumeID"]) if spec.get("awsElasticBlockStore") else ("", where)


def limit(spot: Spot, driver: str, lists: Lists) -> int | None:
    """Return the limit that the node reports; a new node can attach as many volumes as other nodes of its type."""
    wanted = {spot.name}
    if spot.new:
        wanted = {
            one["metadata"]["name"]
            for one in lists.get("nodes") or ()
            if (one["metadata"].get("labels") or {}).get("node.kubernetes.io/instance-type") == spot.type
        }
    counts = [
        one["allocatable"]["count"]
        for node in lists.get("csinodes") or ()
        if node["metadata"]["name"] in wanted
        for one in node["spec"].get("drivers") or ()
        if one["name"] == driver and (one.get("allocatable") or {}).get("count") is not None
    ]
    return min(counts, default=None)


def class_of(spec: Json, lists: Lists) -> Json | None:
    if spec.get("storageClassName") is not None:
        return find(lists, "storageclasses", spec["storageClassName"])
    for one in lists.get("storageclasses") or ():
        if (one["metadata"].get("annotations") or {}).get("storageclass.kubernetes.io/is-default-class") == "true":
            return one
    return None


def find(lists: Lists, plural: str, name: str | None) -> Json | None:
    return next((one for one in lists.get(plural) or () if one["metadata"]["name"] == name), None)
