"""Reads the fields that EC2NodeClass and AWSNodeTemplate have in common: kubelet, volumes, the metadata service, tags.

Source: Karpenter, "NodeClasses" (spec.kubelet, spec.blockDeviceMappings, spec.metadataOptions, spec.tags).
"""

import re
from typing import Any

from joiner import names
from joiner.cluster import Resources
from joiner.pools.codecs.manifest_fields import ManifestFields
from joiner.pools.kubelet_configuration import FIELDS, KubeletConfiguration, read_dns_address
from joiner.pools.node_class import BlockDevice, MetadataOptions
from joiner.pools.suggestions import suggest_nearest

SIGNALS = (
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
)
GRACE = re.compile(r"([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+")
"""A duration that Karpenter and the kubelet read, which parse it with Go."""
RESERVABLE = ("cpu", "memory", "ephemeral-storage", "pid")
VOLUME_TYPES = ("standard", "io1", "io2", "gp2", "gp3", "sc1", "st1")
GIB = 2**30
LEAST_BYTES = 10**9  # 1G, the smallest size of EBS
OUR_TAGS = (
    names.CLUSTER_NAME_TAG,
    names.NODEPOOL,
    names.PROVISIONER,
    names.NODECLAIM,
    names.NODECLASS,
    names.LAUNCH,
    names.EXECUTION,
)
PERCENTAGE = re.compile(r"(100|[0-9]{1,2})(\.[0-9]+)?%")

NO_EXPRESSION = (
    "give a whole number: expressions by instance type are not supported (in Karpenter they are behind the gate "
    "NodeClassCEL, which is off by default); use a class and a pool for each kind of node"
)


def read_kubelet(fields: ManifestFields) -> KubeletConfiguration:
    """Read the kubelet settings that users may set, with the checks that the kubelet makes when it starts."""
    config: dict[str, Any] = {name: fields.raw(name) for name in FIELDS if name in fields}
    if addresses := _read_addresses(fields, "clusterDNS"):
        config["clusterDNS"] = addresses
    if "registerWithTaints" in fields:
        fields.wrong("registerWithTaints", "set the pool's taints or startupTaints instead")
    if fields.raw("containerRuntime") not in (None, "containerd"):
        fields.wrong("containerRuntime", "containerd is the only container runtime; remove the field")
    if isinstance(fields.raw("maxPods"), str):
        fields.wrong("maxPods", NO_EXPRESSION)
    elif fields.integer("maxPods", minimum=0) == 0:
        fields.wrong("maxPods", "no pod fits on a node, not even of a DaemonSet: give at least 1", "warning")
    fields.integer("evictionMaxPodGracePeriod")
    if fields.integer("podsPerCore", minimum=0) == 0:
        fields.wrong("podsPerCore", "it has no effect: 0 means no limit; remove it", "warning")
    high = fields.integer("imageGCHighThresholdPercent", minimum=0, maximum=100)
    low = fields.integer("imageGCLowThresholdPercent", minimum=0, maximum=100)
    if high is not None and low is not None and high <= low:
        fields.wrong("imageGCHighThresholdPercent", f"it must be above imageGCLowThresholdPercent ({low})")
    fields.boolean("cpuCFSQuota")
    for name in ("kubeReserved", "systemReserved"):
        _check_reserved(fields, name)
    for name in ("evictionHard", "evictionSoft"):
        _check_thresholds(fields, name)
    _check_soft_evictions(fields)
    fields.close()
    return KubeletConfiguration(config)


def _check_soft_evictions(fields: ManifestFields) -> None:
    """Note grace periods that do not belong to the signals of evictionSoft."""
    graces = fields.texts("evictionSoftGracePeriod")
    if set(graces) != set(fields.texts("evictionSoft")):
        fields.wrong("evictionSoftGracePeriod", "name exactly the signals of evictionSoft")
    if fields.raw("evictionMaxPodGracePeriod") and not (fields.raw("evictionSoft") or graces):
        fields.wrong("evictionMaxPodGracePeriod", "it has no effect without evictionSoft", "warning")
    for signal, grace in graces.items():
        if not GRACE.fullmatch(grace):
            fields.notes.note(
                f"{fields.at('evictionSoftGracePeriod')}[{signal}]", grace, 'give a duration such as "1m30s" or "1.5m"'
            )


def _read_addresses(fields: ManifestFields, name: str) -> list[str]:
    """Return the addresses of a list, and note each item that is none.

    The kubelet leaves such an item out and starts. If it has no address, pods get the DNS of the node, which does not
    know the names of services: only then the item is an error.
    """
    listed = fields.raw(name)
    if listed is not None and not isinstance(listed, list):
        fields.wrong(name, 'give a list of IP addresses, such as ["10.100.0.10"]')
        return []
    found = [read_dns_address(each) if isinstance(each, str) else "" for each in listed or ()]
    for index, (each, address) in enumerate(zip(listed or (), found, strict=True)):
        where, remedy = f"{fields.at(name)}[{index}]", "give the IP address of the cluster's DNS service, such as "
        if not isinstance(each, str):
            fields.notes.note(where, each, f"it is no text: {remedy}10.100.0.10")
        elif not any(found):
            fields.notes.note(where, each, f"pods get no DNS of the cluster: {remedy}10.100.0.10")
        elif not address:
            fields.notes.note(where, each, f"the kubelet leaves it out: {remedy}10.100.0.10", "warning")
    return [address for address in found if address]


def _check_reserved(fields: ManifestFields, name: str) -> None:
    for key, amount in fields.resources(name, signed=True).items():
        written = fields.raw(name)[key]
        if key not in RESERVABLE:
            remedy = f"the kubelet can reserve only {', '.join(RESERVABLE)}{suggest_nearest(key, RESERVABLE)}"
            fields.notes.note(f"{fields.at(name)}[{key}]", written, remedy)
        elif amount < 0:
            fields.notes.note(f"{fields.at(name)}[{key}]", written, "give a quantity of at least zero")


def _check_thresholds(fields: ManifestFields, name: str) -> None:
    for signal, threshold in fields.texts(name).items():
        where = f"{fields.at(name)}[{signal}]"
        if signal not in SIGNALS:
            fields.notes.note(
                where,
                threshold,
                f"the kubelet knows the signals {', '.join(SIGNALS)}{suggest_nearest(signal, SIGNALS)}",
            )
        elif not PERCENTAGE.fullmatch(threshold) and not _is_quantity(threshold):
            fields.notes.note(where, threshold, 'give a percentage ("5%") or a quantity ("100Mi")')


def _is_quantity(text: str) -> bool:
    try:
        return Resources.from_kube({"memory": text})["memory"] >= 0
    except ValueError:
        return False


def read_block_devices(fields: ManifestFields, name: str, *, legacy: bool) -> tuple[BlockDevice, ...]:
    """Read ``blockDeviceMappings``: at most one root volume, and each volume with a size or a snapshot."""
    devices = tuple(_read_block_device(item, legacy=legacy) for item in fields.many(name))
    if sum(device.root for device in devices) > 1:
        fields.wrong(name, "only one of them can be the root volume")
    seen: set[str] = set()
    for number, device in enumerate(devices):
        if device.device_name in seen:
            where = f"{fields.at(name)}[{number}].deviceName"
            fields.notes.note(where, device.device_name, "two volumes have this device; remove one of them")
        seen.add(device.device_name)
    return devices


def _read_block_device(item: ManifestFields, *, legacy: bool) -> BlockDevice:
    device, root = item.text("deviceName"), False if legacy else bool(item.boolean("rootVolume"))
    if device is None:
        item.wrong("deviceName", "it is missing; the root volume of Amazon Linux is /dev/xvda")
    ebs = item.sub("ebs")
    if "ebs" not in item:
        item.wrong("ebs", "it is missing: set at least its volumeSize")
    item.close()
    size, snapshot = _read_size(ebs), ebs.text("snapshotID")
    if "ebs" in item and "volumeSize" not in ebs and snapshot is None:
        ebs.wrong("volumeSize", "give a volumeSize or a snapshotID")
    read = BlockDevice(
        device_name=device or "",
        size_gib=size,
        volume_type=ebs.text("volumeType", one_of=VOLUME_TYPES),
        iops=ebs.integer("iops", minimum=100),
        throughput=ebs.integer("throughput", minimum=125),
        encrypted=ebs.boolean("encrypted"),
        kms_key_id=ebs.text("kmsKeyID"),
        snapshot_id=snapshot,
        delete_on_termination=ebs.boolean("deleteOnTermination"),
        initialization_rate=None if legacy else ebs.integer("volumeInitializationRate", minimum=100, maximum=300),
        root=root,
    )
    if read.initialization_rate is not None and snapshot is None:
        rate = "volumeInitializationRate"
        ebs.wrong(rate, "it is for a volume of a snapshot that the class names: add its snapshotID, or remove the rate")
    ebs.close()
    return read


def _read_size(ebs: ManifestFields) -> int | None:
    """Return the size in whole GiB, rounded up, because EBS volumes have whole GiB."""
    raw = ebs.raw("volumeSize")
    if raw is None:
        return None
    try:
        amount = Resources.from_kube({"memory": raw})["memory"]
    except ValueError:
        amount = 0
    size = -(-amount // GIB)
    if amount < LEAST_BYTES or size > 64 * 1024:  # a number without a unit is a number of bytes
        ebs.wrong("volumeSize", 'give a size from 1Gi to 64Ti, such as "40Gi"')
        return None
    return size


def read_metadata_options(fields: ManifestFields, *, hop_limit: int) -> MetadataOptions:
    """Read ``metadataOptions``; ``hop_limit`` is the default of the kind."""
    read = MetadataOptions(
        http_endpoint=fields.text("httpEndpoint", one_of=("enabled", "disabled")) or "enabled",
        http_protocol_ipv6=fields.text("httpProtocolIPv6", one_of=("enabled", "disabled")) or "disabled",
        http_put_response_hop_limit=fields.integer("httpPutResponseHopLimit", minimum=1, maximum=64) or hop_limit,
        http_tokens=fields.text("httpTokens", one_of=("required", "optional")) or "required",
    )
    fields.close()
    return read


def read_tags(fields: ManifestFields, name: str) -> dict[str, str]:
    """Read the user's EC2 tags. Users may not set the tags on which Joiner's permissions depend."""
    tags = fields.texts(name)
    for key, value in tags.items():
        where = f"{fields.at(name)}[{key}]"
        if key in OUR_TAGS or key.startswith("kubernetes.io/cluster/"):
            fields.notes.note(where, value, "Joiner sets this tag itself, and its permissions depend on it; remove it")
        elif key.lower().startswith("aws:"):
            fields.notes.note(where, value, "EC2 reserves tags that begin with aws:; use another key")
        elif len(key) > 128 or len(value) > 256:
            fields.notes.note(where, value, "use at most 128 characters in the key and 256 in the value of a tag")
    return tags
