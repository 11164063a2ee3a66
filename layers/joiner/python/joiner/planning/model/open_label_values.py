"""The values that nodes of a pool may get for the labels that it leaves open, as far as pods and daemon sets
distinguish them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Final

from joiner.cluster import ABSENT, Requirements, ValueSet
from joiner.cluster.label_values import ASSIGNABLE
from joiner.planning.model.blast_radius import find_host_neighbours
from joiner.planning.model.pod_groups import PodGroup, PodGroups, pod_terms
from joiner.pools import NodePool
from joiner.pools.label_rules import VALUE

MOST_JOINT_COMBINATIONS: Final = 64
"""Up to this number, all combinations of the values of several labels are variants of a pool. Of more, those that some
group of pods asks for are, without a limit, and others up to this number: two groups whose pods ask for different
labels then may not share a node, but each gets its own."""
MOST_DOMAINS: Final = 256
"""The maximum number of values, or of combinations of values, that one group uses as domains of its rules."""
MOST_ALIKE: Final = 4
"""The maximum number of values that all rules of pods and daemons accept or exclude alike, if they are no domains."""

Combination = tuple[str | None, ...]
"""A value for each open label; None: the node has no such label."""
Options = list[list[str | None]]
"""The values of each open label, in order of preference."""


class OpenLabelValues:
    """The values of the open labels of one pool that its variants combine, by key; the first is for pods without a rule
    about the label."""

    def __init__(
        self, pool: NodePool, keys: Sequence[str], groups: PodGroups, of_daemons: Mapping[str, Sequence[ValueSet]]
    ) -> None:
        """``of_daemons`` are the rules of daemons, by key: pods without a rule get values that none of them names, if
        there are any."""
        self._keys = keys
        self._groups = [
            group
            for group in groups.pending
            if pool.key not in group.held and group.constraints.untolerated(pool.taints) is None
        ]
        rules: dict[str, list[ValueSet]] = {key: [] for key in keys}
        self._domains = {group: _domain_keys(group) for group in self._groups}
        for group in self._groups:
            for requirements in (*group.where, *(one.term.labels for one in group.constraints.preferences)):
                for key in rules.keys() & requirements.keys():
                    rules[key].append(requirements[key])
        of_domains = set().union(*self._domains.values())
        self.choices = {
            key: _choices(pool.requirements[key], rules[key], of_daemons[key], domains=key in of_domains)
            for key in keys
        }

    def combinations(self) -> list[Combination]:
        """Return the combinations that variants have; the first has the first value of each label."""
        every = product(*self.choices.values())
        if prod(map(len, self.choices.values())) <= MOST_JOINT_COMBINATIONS:
            return list(every)
        found = dict.fromkeys([tuple(values[0] for values in self.choices.values())])
        for group, requirements in self._asked():
            found.update(dict.fromkeys(self._accepted(group, requirements)))
        for combination in every:
            if len(found) >= MOST_JOINT_COMBINATIONS:
                break
            found.setdefault(combination)
        return list(found)

    def _asked(self) -> Iterator[tuple[PodGroup, Requirements]]:
        """Yield the alternatives of each group, and those that it may have to share with a group on its host."""
        for group in self._groups:
            yield from ((group, requirements) for requirements in group.where)
        for group, neighbours in find_host_neighbours(self._groups).items():
            for other in neighbours:
                both = (mine & its for mine, its in product(group.where, other.where))
                yield from ((group, one) for one in both if not one.contradictions())

    def _accepted(self, group: PodGroup, requirements: Requirements) -> Iterator[Combination]:
        """Yield combinations that these requirements accept: one, those that differ from it in one label, and those of
        the labels that are domains of the group."""
        options = [self._options(group, requirements, key) for key in self._keys]
        if all(options):
            base = [values[:1] for values in options]
            for at, values in enumerate(options):
                yield from product(*base[:at], values, *base[at + 1 :])
            of_domains = [key in self._domains[group] for key in self._keys]
            joint = [values if own else first for values, first, own in zip(options, base, of_domains, strict=True)]
            yield from _combined(joint)

    def _options(self, group: PodGroup, requirements: Requirements, key: str) -> list[str | None]:
        """Return the values of a label that the group distinguishes, and that these requirements accept."""
        values, preferred = self.choices[key], group.constraints.preferences
        if key in requirements:
            return [value for value in values if _as_member(value) in requirements[key]]
        if key in self._domains[group]:
            return list(values)
        liked = [one.term.labels[key] for one in preferred if key in one.term.labels]
        return [values[0], *(one for one in values[1:] if any(_as_member(one) in each for each in liked))]


def _combined(options: Options) -> Iterator[Combination]:
    """Yield all combinations, or of too many some in which each value of each label occurs."""
    if prod(map(len, options)) <= MOST_DOMAINS:
        yield from product(*options)
    else:
        for number in range(max(map(len, options))):
            yield tuple(values[number % len(values)] for values in options)


def _choices(
    required: ValueSet, rules: Sequence[ValueSet], of_daemons: Sequence[ValueSet], *, domains: bool
) -> tuple[str | None, ...]:
    """Return the value for pods without a rule, those that rules name, and one for each other set of values that rules
    distinguish: such as those below a bound, or any at all where the label may be missing. ``domains``: the values are
    domains of a rule between pods."""
    possible = required & ASSIGNABLE
    named = {value for rule in rules for value in rule.exceptions if value in possible}
    if possible.finite and (rules or domains):
        named.update(possible)
    named = {value for value in named if VALUE.fullmatch(value)}
    unnamed = possible - ValueSet.of(*named)
    by_daemons = ValueSet.of(*(value for rule in of_daemons for value in rule.exceptions))
    usual = None if possible.absent else str((unnamed - by_daemons or unnamed or possible).any_value())
    further = (str((one - by_daemons or one).any_value()) for one in _distinguished(unnamed, rules))
    needed = [value for value in further if any(value in rule and _as_member(usual) not in rule for rule in rules)]
    kept = sorted(named)[:MOST_DOMAINS] if domains else _without_alike(sorted(named), [*rules, *of_daemons])
    return tuple(dict.fromkeys([usual, *kept, *needed]))


def _without_alike(values: Iterable[str], rules: Sequence[ValueSet]) -> list[str]:
    """Return the values without those that further ones of the same kind would only repeat."""
    distinct = list(dict.fromkeys(rules))
    seen: dict[tuple[bool, ...], int] = {}
    kept = []
    for value in values:
        alike = tuple(value in rule for rule in distinct)
        seen[alike] = seen.get(alike, 0) + 1
        if seen[alike] <= MOST_ALIKE:
            kept.append(value)
    return kept


def _distinguished(values: ValueSet, rules: Sequence[ValueSet]) -> list[ValueSet]:
    """Return these values, without ABSENT, in parts that each rule includes or excludes as a whole."""
    whole = values - ValueSet.of(ABSENT)
    parts = [whole] if whole else []
    for rule in dict.fromkeys(rules):
        parts = [part for one in parts for part in (one & rule, one - rule) if part]
    return parts


def _as_member(value: str | None) -> object:
    return ABSENT if value is None else value


def _domain_keys(group: PodGroup) -> set[str]:
    """Return the labels whose values are domains of the group's rules between pods."""
    spreads = {spread.topology_key for spread in group.constraints.spreads}
    return spreads | {term.topology_key for term in pod_terms(group.constraints)}
