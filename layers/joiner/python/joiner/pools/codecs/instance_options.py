"""Reads the options of an EC2NodeClass that not every instance type has: interfaces, timeouts, processor, placement."""

from collections import Counter

from joiner.pools.codecs.manifest_fields import ManifestFields
from joiner.pools.node_class import EFA_ONLY, ConnectionTracking, NetworkInterface, PlacementGroupTerm

MAXIMUM_INTERFACES = 150


def read_network_interfaces(spec: ManifestFields) -> tuple[NetworkInterface, ...]:
    """Read ``networkInterfaces``: the primary one is the card 0, device 0, and has addresses."""
    name = "networkInterfaces"
    items = spec.many(name)
    found = []
    for item in items:
        for key in ("networkCardIndex", "deviceIndex"):
            if key not in item:
                item.wrong(key, "it is missing: give a number from 0")
        kind = item.text("interfaceType", one_of=("interface", EFA_ONLY))
        card = item.integer("networkCardIndex", minimum=0)
        device = item.integer("deviceIndex", minimum=0)
        item.close()
        found.append(NetworkInterface(card or 0, device or 0, EFA_ONLY if kind == EFA_ONLY else "interface"))
    if len(items) > MAXIMUM_INTERFACES:
        spec.wrong(name, f"give at most {MAXIMUM_INTERFACES} interfaces")
    if name in spec and NetworkInterface(0, 0) not in found:
        spec.wrong(name, "add the primary interface: {networkCardIndex: 0, deviceIndex: 0, interfaceType: interface}")
    places = Counter((one.card, one.device) for one in found)
    if twice := next((place for place, count in places.items() if count > 1), None):
        spec.wrong(name, f"two interfaces have the card {twice[0]} and the device {twice[1]}: change one of them")
    efa = Counter(one.card for one in found if one.kind == EFA_ONLY)
    if card := next((each for each, count in efa.items() if count > 1), None):
        spec.wrong(name, f"the card {card} has two interfaces of the type {EFA_ONLY}: keep one a card")
    return tuple(sorted(found))


def read_connection_tracking(spec: ManifestFields) -> ConnectionTracking | None:
    """Read ``connectionTracking``, which sets at least one timeout."""
    name = "connectionTracking"
    if name not in spec:
        return None
    fields = spec.sub(name)
    found = ConnectionTracking(
        tcp_established=fields.integer("tcpEstablishedTimeout", minimum=60, maximum=432_000),
        udp_stream=fields.integer("udpStreamTimeout", minimum=60, maximum=180),
        udp=fields.integer("udpTimeout", minimum=30, maximum=60),
    )
    fields.close()
    if not any(key in fields for key in ("tcpEstablishedTimeout", "udpStreamTimeout", "udpTimeout")):
        spec.wrong(name, "set tcpEstablishedTimeout, udpStreamTimeout or udpTimeout (seconds)")
    return found


def read_nested_virtualization(spec: ManifestFields) -> str | None:
    """Read ``cpuOptions.nestedVirtualization``: ``enabled``, ``disabled`` or None."""
    fields = spec.sub("cpuOptions")
    found = fields.text("nestedVirtualization", one_of=("enabled", "disabled"))
    fields.close()
    return found


def read_placement_group(spec: ManifestFields) -> PlacementGroupTerm | None:
    """Read ``placementGroupSelector``: exactly one of name and id."""
    name = "placementGroupSelector"
    if name not in spec:
        return None
    fields = spec.sub(name)
    found = PlacementGroupTerm(
        name=fields.text("name") or "",
        id=fields.text("id", pattern="pg-[0-9a-z]+", remedy='give an id such as "pg-0123456789abcdef0"') or "",
    )
    fields.close()
    if ("name" in fields) == ("id" in fields):
        spec.wrong(name, "give exactly one of name, id")
    return found
