"""Divide groups of pods into the items of a packing problem: pods of an item are equal for the optimisation."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from joiner import names
from joiner.planning.model.pod_groups import PodGroup
from joiner.planning.state.domain_assignment import DomainAssignment
from joiner.planning.state.plan_state import PlanState
from joiner.planning.state.pod_topology import DomainCounts, GroupRules


@dataclass(slots=True)
class ItemDraft:
    """An item that is being collected: a sample group, its assigned domain, its rules about other pods on its node,
    the rules that count it, and its members."""

    group: PodGroup
    key: str
    value: str
    kind: int
    rows: tuple["HostRow", ...]
    counted: tuple["HostRow", ...]
    members: list[tuple[PodGroup, int]]


ANY: Final = "*"


EVERY: Final = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 - addresses that pods take ports on, not one to listen on


PRECISE_RULES_PODS: Final = 6000
"""Up to this number of pods, a pod that conflicts with others on its node costs a part of a node, so pods with a host
rule and pods that it counts are distinguished. With more pods, such a pod finds another node, and fewer items
matter more: a pod with a rule is then also counted by it."""


PRECISE_RULES_GROUPS: Final = 60
"""Up to this number of groups, they are distinguished for any number of pods."""


HostRow = tuple[object, int, bool]
"""A rule about hosts (its counts, or a port), how many of its pods may share a node, and whether it must hold in every
plan."""


def draft_items(
    state: PlanState, assignment: DomainAssignment, groups: Sequence[PodGroup], kind_of: Mapping[PodGroup, int]
) -> list[ItemDraft]:
    """Return the items of these groups; ``kind_of`` is the kind of each group's offers."""
    found: dict[object, ItemDraft] = {}
    addresses: dict[tuple[int, str], set[str]] = {}
    for group in groups:
        for port in group.constraints.host_ports:
            addresses.setdefault((port.port, port.protocol), set()).add(ANY if port.ip in EVERY else port.ip)
    precise = state.pods_left <= PRECISE_RULES_PODS or len(groups) <= PRECISE_RULES_GROUPS
    asked = _asked(state, groups) if precise else {}
    for group in groups:
        rows = tuple(row for row in host_rows(group, state.rules[group.index], addresses) if precise or row[1])
        feeds = state.rules[group.index].feeds
        counted = tuple(row for row in rows if not precise or not isinstance(row[0], DomainCounts) or row[0] in feeds)
        counted += tuple(row for counts in feeds for row in asked.get(counts, ()) if row not in rows)
        for key, value, number in assignment.shares(group, state.left[group]):
            identity = (group.vector, kind_of[group], key, value, rows, counted)
            if identity not in found:
                found[identity] = ItemDraft(group, key, value, kind_of[group], rows, counted, [])
            found[identity].members.append((group, number))
    return list(found.values())


def host_rows(
    group: PodGroup, own: GroupRules, addresses: Mapping[tuple[int, str], Collection[str]]
) -> tuple[HostRow, ...]:
    """Return the rules that limit the pods of a group on one node. A port that is used on every address is used on
    each of ``addresses``."""
    rows: list[HostRow] = [(rule.counts, rule.spread.max_skew, False) for rule in own.spreads if rule.universe is None]
    rows += [(counts, 1 if counts in own.feeds else 0, True) for counts in own.away if counts.key == names.HOSTNAME]
    taken: set[tuple[int, str, str]] = set()
    for port in group.constraints.host_ports:
        known = (port.port, port.protocol)
        taken |= {(*known, ip) for ip in (addresses.get(known, ()) if port.ip in EVERY else (port.ip,))}
    return (*rows, *((one, 1, True) for one in sorted(taken)))


def _asked(state: PlanState, groups: Sequence[PodGroup]) -> dict[object, tuple[HostRow, ...]]:
    """Return, by counts, the rules about hosts of some of these groups."""
    found: dict[object, dict[HostRow, None]] = {}
    for group in groups:
        for row in host_rows(group, state.rules[group.index], {}):
            found.setdefault(row[0], {})[row] = None
    return {counts: tuple(rows) for counts, rows in found.items()}
