"""Volumes of an instance as EC2 checks them in RunInstances, and the account's EBS defaults.

moto accepts any volume. Sources: EC2 API reference (EbsBlockDevice; "Error codes"; Get- and ModifyEbsDefaultKmsKeyId,
GetEbsEncryptionByDefault), messages that users of EC2 report; `tests/local/test_refusals_of_volumes.py` names the
source of each.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from moto.core.responses import ActionResult
from moto.ec2.models.elastic_block_store import Snapshot
from moto.ec2.responses import EC2Response

from joiner_local.aws.attribute_patches import replace_attribute

Problem = tuple[str, str]  # EC2's error code and message

AWS_MANAGED_KEY: Final = "alias/aws/ebs"
DEFAULT_TYPE: Final = "gp2"
DEVICE: Final = re.compile(r"(/dev/)?(sd[a-z]([1-9]|1[0-5])?|xvd[a-d]?[a-z])")
GP3_IOPS: Final = 3000
INVALID: Final = "InvalidParameterValue"
COMBINATION: Final = "InvalidParameterCombination"
MAPPING: Final = "InvalidBlockDeviceMapping"


@dataclass(frozen=True, slots=True)
class VolumeType:
    """A volume type: sizes in GiB, IOPS (None: not settable), IOPS per GiB, throughput in MiB/s."""

    least: int
    most: int
    iops: tuple[int, int] | None = None
    ratio: int = 0
    throughput: tuple[int, int] | None = None
    iops_required: bool = False


KINDS: Final = {
    "standard": VolumeType(1, 1024),
    "gp2": VolumeType(1, 16384),
    "gp3": VolumeType(1, 65536, (3000, 80000), 500, (125, 2000)),
    "io1": VolumeType(4, 16384, (100, 64000), 50, iops_required=True),
    "io2": VolumeType(4, 65536, (100, 256000), 1000, iops_required=True),
    "st1": VolumeType(125, 16384),
    "sc1": VolumeType(125, 16384),
}


@dataclass(slots=True)
class AccountEbsDefaults:
    """The EBS defaults of the account in this region."""

    key: str = AWS_MANAGED_KEY
    encrypted: bool = False


DEFAULTS: Final = AccountEbsDefaults()


def problems(data: Mapping[str, Any], backend: Any) -> Iterator[Problem]:
    """Return what RunInstances refuses in the block devices of a request, merged over those of its image."""
    image = backend.amis.get(data.get("ImageId") or "")
    mapped = {each["DeviceName"]: each.get("Ebs", {}) for each in (image.block_device_mappings if image else ())}
    for mapping in data.get("BlockDeviceMappings") or ():
        name = mapping.get("DeviceName", "")
        if not DEVICE.fullmatch(name):
            yield MAPPING, f"Invalid device name {name}"
        if "Ebs" in mapping and mapping.get("NoDevice") is None:
            yield from _of_device(name, mapping["Ebs"], mapped.get(name, {}), backend)


def _of_device(name: str, asked: Mapping[str, Any], mapped: Mapping[str, Any], backend: Any) -> Iterator[Problem]:
    volume = {"VolumeType": DEFAULT_TYPE, **mapped, **asked}
    if asked.get("KmsKeyId") and not _true(asked.get("Encrypted")):
        yield "InvalidParameterDependency", "The parameter KmsKeyId requires the parameter Encrypted to be set."
    if not volume.get("VolumeSize") and not volume.get("SnapshotId"):
        yield MAPPING, f"Either snapshot ID or volume size must be provided for: {name}"
    yield from _of_snapshot(name, asked, mapped, backend)
    kind = KINDS.get(volume["VolumeType"])
    if kind is None:
        yield "UnknownVolumeType", f"Unsupported volume type '{volume['VolumeType']}' for volume creation."
        return
    yield from _of_size(volume, kind)
    yield from _of_speed(volume, kind)


def _of_snapshot(name: str, asked: Mapping[str, Any], mapped: Mapping[str, Any], backend: Any) -> Iterator[Problem]:
    """Check a mapping with a snapshot. `mapped` has the image's snapshot, whose size is that of the mapping."""
    size, encrypted = int(mapped.get("VolumeSize") or 0), _true(mapped.get("Encrypted"))
    identifier = asked.get("SnapshotId") or mapped.get("SnapshotId")
    if asked.get("SnapshotId"):
        found = backend.snapshots.get(identifier)
        if found is None or not _visible(found, backend.account_id):
            yield "InvalidSnapshot.NotFound", f"The snapshot '{identifier}' does not exist."
            return
        size, encrypted = int(found.volume.size), bool(found.encrypted)
    if asked.get("VolumeSize") and int(asked["VolumeSize"]) < size:
        yield (
            MAPPING,
            f"Volume of size {asked['VolumeSize']}GB is smaller than snapshot '{identifier}', expect size >= {size}GB",
        )
    if encrypted and "Encrypted" in asked and not _true(asked["Encrypted"]):
        yield MAPPING, f"the encrypted flag cannot be specified since device {name} has a snapshot specified."


def _visible(snapshot: Any, account: str) -> bool:
    """Whether the account may use the snapshot: its own, public ones (those of Amazon's images), and those shared
    with it.
    """
    public = snapshot.from_ami or "all" in snapshot.create_volume_permission_groups
    return bool(snapshot.owner_id == account or public or account in snapshot.create_volume_permission_userids)


def _of_size(volume: Mapping[str, Any], kind: VolumeType) -> Iterator[Problem]:
    size, name = int(volume.get("VolumeSize") or kind.least), volume["VolumeType"]
    if size < kind.least:
        yield INVALID, f"Volume of {size}GiB is too small for volume type {name}; minimum is {kind.least}GiB."
    if size > kind.most:
        yield INVALID, f"Volume of {size}GiB is too large for volume type {name}; maximum is {kind.most}GiB."


def _of_speed(volume: Mapping[str, Any], kind: VolumeType) -> Iterator[Problem]:
    name, size = volume["VolumeType"], int(volume.get("VolumeSize") or 0)
    iops, throughput = int(volume.get("Iops") or 0), int(volume.get("Throughput") or 0)
    if kind.iops_required and not iops:
        yield COMBINATION, f"The parameter iops must be specified for {name} volumes."
    if iops and kind.iops is None:
        yield COMBINATION, f"The parameter iops is not supported for {name} volumes."
    elif iops and kind.iops is not None:
        least, most = kind.iops
        if iops < least:
            yield INVALID, f"Volume iops of {iops} is too low; minimum is {least}."
        elif iops > most:
            yield INVALID, f"Volume iops of {iops} is too high; maximum is {most}."
        elif size and iops > kind.ratio * size and not (name == "gp3" and iops <= GP3_IOPS):
            yield INVALID, f"Iops to volume size ratio of {iops / size:.6f} is too high; maximum is {kind.ratio}"
    if throughput and kind.throughput is None:
        yield COMBINATION, "throughput can only be specified for volumeType gp3."
    elif throughput and kind.throughput is not None:
        ratio = throughput / (iops or GP3_IOPS)
        if throughput > kind.throughput[1]:
            yield INVALID, f"Throughput of {throughput} MiBps is too high; maximum is {kind.throughput[1]}."
        elif throughput < kind.throughput[0]:
            yield INVALID, f"Throughput of {throughput} MiBps is too low; minimum is {kind.throughput[0]}."
        elif ratio > 0.25:
            yield (
                INVALID,
                f"Throughput (MiBps) to iops ratio of {ratio:.6f} is too high; maximum is 0.250000 MiBps per iops.",
            )


def keys_of(data: Mapping[str, Any], backend: Any) -> set[str]:
    """Return the customer-managed keys that encrypt the volumes of a request, including the account's default."""
    image = backend.amis[data["ImageId"]]
    devices: dict[str, dict[str, Any]] = {
        each["DeviceName"]: dict(each.get("Ebs", {})) for each in image.block_device_mappings
    }
    for mapping in data.get("BlockDeviceMappings") or ():
        if "Ebs" in mapping:
            devices.setdefault(mapping["DeviceName"], {}).update(mapping["Ebs"])
    found = {_key_of(ebs, backend) for ebs in devices.values()}
    return {key for key in found if key and not key.endswith(AWS_MANAGED_KEY)}


def _key_of(ebs: Mapping[str, Any], backend: Any) -> str:
    snapshot = backend.snapshots.get(ebs.get("SnapshotId") or "")
    if ebs.get("KmsKeyId"):
        return str(ebs["KmsKeyId"])
    if snapshot is not None and snapshot.encrypted:
        return str(snapshot.kms_key_id or getattr(snapshot.volume, "kms_key_id", None) or DEFAULTS.key)
    return DEFAULTS.key if _true(ebs.get("Encrypted")) or DEFAULTS.encrypted else ""


def _true(text: object) -> bool:
    return str(text).lower() == "true"


def get_ebs_default_kms_key_id(_response: Any) -> ActionResult:
    """Return the key that encrypts volumes without a key of their own."""
    return ActionResult({"KmsKeyId": DEFAULTS.key})


def modify_ebs_default_kms_key_id(response: Any) -> ActionResult:
    """Set the account's default key for volumes."""
    response.error_on_dryrun()
    DEFAULTS.key = str(response.ec2_backend.modify_ebs_default_kms_key_id(response._get_param("KmsKeyId")))
    return ActionResult({"KmsKeyId": DEFAULTS.key})


def reset_ebs_default_kms_key_id(_response: Any) -> ActionResult:
    """Make the key of AWS the default key again."""
    DEFAULTS.key = AWS_MANAGED_KEY
    return ActionResult({"KmsKeyId": DEFAULTS.key})


def get_ebs_encryption_by_default(_response: Any) -> ActionResult:
    """Return whether every new volume is encrypted."""
    return ActionResult({"EbsEncryptionByDefault": DEFAULTS.encrypted})


def enable_ebs_encryption_by_default(_response: Any) -> ActionResult:
    """Encrypt every new volume."""
    DEFAULTS.encrypted = True
    return ActionResult({"EbsEncryptionByDefault": True})


def disable_ebs_encryption_by_default(_response: Any) -> ActionResult:
    """Encrypt only the volumes that ask for it."""
    DEFAULTS.encrypted = False
    return ActionResult({"EbsEncryptionByDefault": False})


def _owner_alias(snapshot: Any) -> str | None:
    """Return the alias of the owner of a snapshot: that of its image, if the image has one."""
    image = snapshot.ec2_backend.amis.get(snapshot.from_ami)
    return getattr(image, "owner_alias", None)


def install() -> None:
    """Install the actions in moto."""
    replace_attribute(Snapshot, "owner_alias", property(_owner_alias))
    for action in (
        get_ebs_default_kms_key_id,
        modify_ebs_default_kms_key_id,
        reset_ebs_default_kms_key_id,
        get_ebs_encryption_by_default,
        enable_ebs_encryption_by_default,
        disable_ebs_encryption_by_default,
    ):
        replace_attribute(EC2Response, action.__name__, action)
