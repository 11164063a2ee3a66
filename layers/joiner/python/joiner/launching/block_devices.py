"""Check the volumes of a node class before a launch: ranges, ratios, snapshots and keys that EBS would refuse.

Sources: EC2 API reference, EbsBlockDevice and CreateVolume (sizes, IOPS, throughput by type); Amazon EBS user guide,
"EBS encryption".
"""

import re
from collections.abc import Container, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from joiner.launching.node_class_policy import AWS_MANAGED_KEY, NodeClassPolicy, owner_in_conditions
from joiner.pools import BlockDevice, NodeClassProblem

Answer = Mapping[str, Any]
CONDITION = "ValidationSucceeded"
DEVICE_NAME = re.compile(r"(/dev/)?(sd[a-z]([1-9]|1[0-5])?|xvd[a-d]?[a-z])")
"""Source: EC2 user guide, "Device names for volumes" (HVM)."""
ROOT_NAMES = frozenset({"/dev/sda", "/dev/sda1", "/dev/xvda", "sda", "sda1", "xvda"})
"""Names that images have for their root device, with and without /dev/."""
NOT_BOOTABLE = ("sc1", "st1")
GP3_BASELINE = 3000  # IOPS of a gp3 volume of any size
THROUGHPUT_PER_IOPS = 0.25  # MiB/s
SETTING = "nodeClasses in clusters/NAME.yaml"


@dataclass(frozen=True, slots=True)
class VolumeLimits:
    """The limits of one volume type.

    Sizes in GiB, IOPS (None: the type has no such setting), maximum IOPS per GiB, throughput in MiB/s.
    """

    sizes: tuple[int, int]
    iops: tuple[int, int] | None = None
    iops_per_gib: int = 0
    throughput: tuple[int, int] | None = None
    needs_iops: bool = False


LIMITS: Mapping[str, VolumeLimits] = {
    "gp2": VolumeLimits((1, 16_384)),
    "gp3": VolumeLimits((1, 65_536), (3000, 80_000), 500, (125, 2000)),
    "io1": VolumeLimits((4, 16_384), (100, 64_000), 50, needs_iops=True),
    "io2": VolumeLimits((4, 65_536), (100, 256_000), 1000, needs_iops=True),
    "sc1": VolumeLimits((125, 16_384)),
    "st1": VolumeLimits((125, 16_384)),
    "standard": VolumeLimits((1, 1024)),
}
DEFAULT_TYPE = "gp2"
"""EC2's type for a new volume without a type."""


@dataclass(frozen=True, slots=True)
class EbsDefaults:
    """The defaults of the account in this region.

    They are the key of volumes that name none, and whether every volume is encrypted.
    """

    key: str = AWS_MANAGED_KEY
    encrypted: bool = False


@dataclass(frozen=True, slots=True)
class VolumeAnswers:
    """EC2's answers about the volumes of one class: its images, the snapshots that it names, the defaults.

    ``defaults`` is None if the role may not read them.
    """

    images: Sequence[Answer] = ()
    snapshots: Sequence[Answer] = ()
    defaults: EbsDefaults | None = None


def find_volume_problems(
    devices: Sequence[BlockDevice],
    answers: VolumeAnswers,
    ceilings: NodeClassPolicy,
    *,
    field: str = "spec.blockDeviceMappings",
) -> list[NodeClassProblem]:
    """Return every problem of these volumes; ``field`` is the path of their list in the class."""
    roots = {str(image["RootDeviceName"]) for image in answers.images if image.get("RootDeviceName")}
    problems = [
        problem
        for index, device in enumerate(devices)
        for problem in (
            *_device_problems(device, roots, f"{field}[{index}]"),
            *_range_problems(device, answers, f"{field}[{index}].ebs"),
            *_snapshot_problems(device, answers, ceilings, f"{field}[{index}].ebs"),
            *_image_problems(device, answers, f"{field}[{index}].ebs"),
            *_key_problems(device, ceilings, f"{field}[{index}].ebs"),
        )
    ]
    return [
        *problems,
        *_root_name_problems(devices, roots, field),
        *_default_key_problems(devices, answers, ceilings),
    ]


def find_declared_volume_problems(
    devices: Sequence[BlockDevice],
    ceilings: NodeClassPolicy | None,
    *,
    field: str,
    root: str = "",
    snapshots: Mapping[str, int] | None = None,
) -> list[NodeClassProblem]:
    """Return the problems that need no answer of EC2. Without ``ceilings``, every key is allowed.

    ``root`` is the root device of the images of the class's family, if it has one. ``snapshots`` are the sizes in GiB
    of the snapshots of AWS's images by device; None if the class has other images.
    The ranges of a volume without a type are unknown, because its image decides the type.
    """
    named = () if snapshots is None else _root_name_problems(devices, {root} - {""}, field)
    problems = [
        problem
        for index, device in enumerate(devices)
        for problem in (
            *_device_problems(device, (root,), f"{field}[{index}]"),
            *(_range_problems(device, VolumeAnswers(), f"{field}[{index}].ebs") if device.volume_type else ()),
            *_declared_snapshot_problems(device, ceilings, f"{field}[{index}].ebs"),
            *_key_problems(device, ceilings, f"{field}[{index}].ebs"),
            *_usual_size_problems(device, snapshots or {}, f"{field}[{index}].ebs"),
        )
    ]
    return [*problems, *named]


def _root_name_problems(devices: Sequence[BlockDevice], roots: Set[str], field: str) -> Iterator[NodeClassProblem]:
    """Yield a warning for a device with the name of a root that is not the one of these images. EC2 compares names as
    texts, and adds a volume for each name that the image does not have."""
    if any(device.device_name in roots for device in devices):
        return
    for index, device in enumerate(devices):
        if roots and device.device_name in ROOT_NAMES:
            root = min(roots)
            message = (
                f"{field}[{index}].deviceName: {device.device_name}: the root volume of the images is {root}: this one "
                f"is a further volume, and the root keeps the size of the image: write {root}"
            )
            yield NodeClassProblem(CONDITION, "RootDeviceNotMapped", message, "warning")


def _usual_size_problems(device: BlockDevice, snapshots: Mapping[str, int], where: str) -> Iterator[NodeClassProblem]:
    """Yield a warning for a volume that is smaller than its snapshot in the images that AWS has published so far."""
    least = snapshots.get(device.device_name, 0)
    if device.size_gib is not None and device.size_gib < least and not device.snapshot_id:
        message = (
            f"{where}.volumeSize: {device.size_gib}Gi: the snapshots of AWS's images have {least}Gi or more, and EC2 "
            "refuses a smaller volume (InvalidBlockDeviceMapping): raise volumeSize"
        )
        yield NodeClassProblem(CONDITION, "VolumeSmallerThanImages", message, "warning")


def _invalid(where: str, message: str) -> NodeClassProblem:
    return NodeClassProblem(CONDITION, "BlockDeviceInvalid", f"{where}{message}")


def _device_problems(device: BlockDevice, roots: Container[str], where: str) -> Iterator[NodeClassProblem]:
    name = device.device_name
    if not DEVICE_NAME.fullmatch(name):
        yield _invalid(
            where,
            (
                f".deviceName: {name}: EC2 has no such device name: use one such as /dev/xvdb (Amazon Linux's root is "
                f"/dev/xvda)"
            ),
        )
    if device.volume_type in NOT_BOOTABLE and name in roots:
        yield _invalid(
            where,
            (
                f".ebs.volumeType: {device.volume_type}: no instance boots from it, and {name} is the image's root: "
                f"use gp3"
            ),
        )


def _range_problems(device: BlockDevice, answers: VolumeAnswers, where: str) -> Iterator[NodeClassProblem]:
    kind = device.volume_type or next(
        (str(ebs["VolumeType"]) for ebs in _of_images(device, answers) if "VolumeType" in ebs), DEFAULT_TYPE
    )
    limits = LIMITS.get(kind)
    if limits is None:
        return
    low, high = limits.sizes
    if device.size_gib is not None and not low <= device.size_gib <= high:
        yield _invalid(
            where,
            (
                f".volumeSize: {device.size_gib}Gi: {kind} volumes have {low}Gi to {high}Gi: change volumeSize or "
                f"volumeType"
            ),
        )
    if device.iops is None and limits.needs_iops:
        yield _invalid(where, f".iops: it is missing: {kind} volumes need it: give iops, or use gp3")
    if device.iops is not None:
        yield from _iops_problems(device.iops, device, kind, limits, where)
    if device.throughput is not None:
        yield from _throughput_problems(device.throughput, device, kind, limits, where)


def _iops_problems(
    iops: int, device: BlockDevice, kind: str, limits: VolumeLimits, where: str
) -> Iterator[NodeClassProblem]:
    if limits.iops is None:
        yield _invalid(where, f".iops: {iops}: {kind} volumes take no iops: remove it, or use gp3, io1 or io2")
        return
    low, high = limits.iops
    if not low <= iops <= high:
        yield _invalid(where, f".iops: {iops}: {kind} volumes have {low} to {high} IOPS: change iops")
    elif (
        device.size_gib is not None
        and iops > limits.iops_per_gib * device.size_gib
        and not (kind == "gp3" and iops <= GP3_BASELINE)
    ):
        most = limits.iops_per_gib * device.size_gib
        yield _invalid(
            where,
            f".iops: {iops}: {kind} of {device.size_gib}Gi has at most {most} IOPS: lower iops or raise volumeSize",
        )


def _throughput_problems(
    throughput: int, device: BlockDevice, kind: str, limits: VolumeLimits, where: str
) -> Iterator[NodeClassProblem]:
    if limits.throughput is None:
        yield _invalid(where, f".throughput: {throughput}: only gp3 volumes take a throughput: remove it, or use gp3")
        return
    low, high = limits.throughput
    most = int((device.iops or GP3_BASELINE) * THROUGHPUT_PER_IOPS)
    if not low <= throughput <= high:
        yield _invalid(
            where, f".throughput: {throughput}: {kind} volumes have {low} to {high} MiB/s: change throughput"
        )
    elif throughput > most:
        iops = device.iops or GP3_BASELINE
        yield _invalid(
            where, f".throughput: {throughput}: {iops} IOPS give at most {most} MiB/s: lower throughput or raise iops"
        )


def _snapshot_problems(
    device: BlockDevice, answers: VolumeAnswers, ceilings: NodeClassPolicy, where: str
) -> Iterator[NodeClassProblem]:
    """Yield problems of the snapshot that the class names.

    It must exist, the settings must allow it, and the volume must be large enough for it.
    """
    if not device.snapshot_id:
        return
    found = next((each for each in answers.snapshots if each["SnapshotId"] == device.snapshot_id), None)
    if found is None:
        remedy = "name one that exists in this region and that this account may use"
        yield NodeClassProblem(
            CONDITION, "SnapshotNotFound", f"{where}.snapshotID: there is no snapshot {device.snapshot_id}: {remedy}"
        )
        return
    tags = {tag["Key"]: tag["Value"] for tag in found.get("Tags", ())}
    owner, alias = str(found.get("OwnerId", "")), str(found.get("OwnerAlias", ""))
    allowed = ceilings.allows_owner(ceilings.snapshot_owners, owner=owner, alias=alias)
    if not allowed and not ceilings.snapshots.allows(device.snapshot_id, tags):
        yield _refuse_snapshot(f"{device.snapshot_id} of {owner_in_conditions(owner, alias)}", ceilings, where)
    size = int(found.get("VolumeSize", 0))
    if device.size_gib is not None and device.size_gib < size:
        yield _invalid(
            where,
            f".volumeSize: {device.size_gib}Gi: the snapshot {device.snapshot_id} needs {size}Gi: raise volumeSize",
        )
    if device.encrypted is False and found.get("Encrypted"):
        remedy = "remove encrypted or set it to true"
        yield _invalid(
            where, f".encrypted: false: the snapshot {device.snapshot_id} is encrypted, and stays so: {remedy}"
        )


def _refuse_snapshot(snapshot: str, ceilings: NodeClassPolicy, where: str) -> NodeClassProblem:
    of = ", ".join(
        filter(None, (f"owners {' and '.join(ceilings.snapshot_owners) or 'none'}", str(ceilings.snapshots)))
    )
    tagging = "tag the snapshot, or " if ceilings.snapshots.tags else ""
    remedy = f"{tagging}add it to snapshots of {SETTING} and deploy"
    message = f"{where}.snapshotID: nodes may not have {snapshot}; the settings allow {of}: {remedy}"
    return NodeClassProblem(CONDITION, "SnapshotNotAllowed", message)


def _declared_snapshot_problems(
    device: BlockDevice, ceilings: NodeClassPolicy | None, where: str
) -> Iterator[NodeClassProblem]:
    """Yield the problem of a snapshot that the settings refuse whatever owner and tags it has."""
    if ceilings and device.snapshot_id and ceilings.decide_snapshot(device.snapshot_id) is False:
        yield _refuse_snapshot(device.snapshot_id, ceilings, where)


def _of_images(device: BlockDevice, answers: VolumeAnswers) -> list[Answer]:
    """Return the image mappings of this device; empty if the class names a snapshot."""
    mappings = [mapping for image in answers.images for mapping in image.get("BlockDeviceMappings", ())]
    return [
        each["Ebs"]
        for each in mappings
        if each.get("DeviceName") == device.device_name and "Ebs" in each and not device.snapshot_id
    ]


def _image_problems(device: BlockDevice, answers: VolumeAnswers, where: str) -> Iterator[NodeClassProblem]:
    """Yield the problems of a volume that is smaller than the image, or unencrypted while the image is encrypted.

    The size in an image's mapping is used for that of its snapshot, which may not be visible. If only some of the
    images are larger, the others can be launched: the condition reports it and the class remains usable.
    """
    mapped = _of_images(device, answers)
    sizes = [int(ebs.get("VolumeSize", 0)) for ebs in mapped]
    if device.size_gib is not None and (larger := [size for size in sizes if size > device.size_gib]):
        message = f".volumeSize: {device.size_gib}Gi: the image's snapshot needs {max(larger)}Gi: raise volumeSize"
        refusal = _invalid(where, message)
        yield (
            refusal
            if len(larger) == len(sizes)
            else NodeClassProblem(CONDITION, refusal.reason, refusal.message, "warning")
        )
    if device.encrypted is False and any(ebs.get("Encrypted") for ebs in mapped):
        yield _invalid(
            where,
            ".encrypted: false: the image's snapshot is encrypted, and stays so: remove encrypted or set it to true",
        )


def _key_problems(device: BlockDevice, ceilings: NodeClassPolicy | None, where: str) -> Iterator[NodeClassProblem]:
    key = device.kms_key_id
    if not key:
        return
    if not device.encrypted:
        yield _invalid(where, f".kmsKeyID: {key}: EC2 takes a key only with encrypted: true: set encrypted")
    if ceilings and not ceilings.allows_key(key):
        yield NodeClassProblem(CONDITION, "KMSKeyNotAllowed", f"{where}.kmsKeyID: {key}: {_key_remedy(ceilings)}")


def _key_remedy(ceilings: NodeClassPolicy) -> str:
    named = ", ".join(ceilings.kms_keys) or "none"
    why = "without a grant the instance would end seconds after its launch"
    return (
        f"the settings' kmsKeys name {named}, and {why}: add the key's ARN to kmsKeys of {SETTING}, deploy, "
        f"and see docs/kms.md"
    )


def _default_key_problems(
    devices: Sequence[BlockDevice], answers: VolumeAnswers, ceilings: NodeClassPolicy
) -> Iterator[NodeClassProblem]:
    """Yield the problem of the account's default key, if a volume of the class would be encrypted with it."""
    if answers.defaults is None:
        return
    key, encrypts_all = answers.defaults.key, answers.defaults.encrypted
    used = any(not device.kms_key_id and (device.encrypted or encrypts_all) for device in devices) or (
        encrypts_all and not devices
    )
    if used and not ceilings.allows_key(key):
        message = (
            f"the account's default EBS encryption key, which this class's volumes would have, is {key}: "
            f"{_key_remedy(ceilings)}"
        )
        yield NodeClassProblem(CONDITION, "DefaultKMSKeyNotAllowed", message)
