"""The values that nodes of a pool may get for the labels that it leaves open, as far as pods and daemon sets
distinguish them.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
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
"""Up to this number, all combinations of the values of several labels are asked for. Of more, those that some group of
pods asks for are, and others up to this number: two groups whose pods ask for different labels then may not share a
node, but each gets its own."""
MOST_DOMAINS: Final = 256
"""The maximum number of values that no rule requires and that are domains of rules between pods, and of combinations of
values that one group uses as domains."""
MOST_ALIKE: Final = 4
"""The maximum number of values that all rules of pods and daemons accept or exclude alike, if they are no domains."""
MOST_NEIGHBOURS: Final = 256
"""The maximum number of groups that are searched for those that may have to share a host with one group."""
MOST_JOINED: Final = 64
"""The maximum number of different rules of such groups that are joined with those of one group."""

Combination = tuple[str | None, ...]
"""A value for each open label; None: the node has no such label."""
Options = list[list[str | None]]
"""The values of each open label, in order of preference."""
Alternatives = tuple[Requirements, ...]


class OpenLabelValues:
    """The values of the open labels of one pool that its variants combine, by key; the first is for pods without a rule
    about the label. ``groups`` are the pending groups that the pool may launch nodes for."""

    def __init__(
        self, pool: NodePool, keys: Sequence[str], groups: PodGroups, of_daemons: Mapping[str, Sequence[ValueSet]]
    ) -> None:
        """``of_daemons`` are the rules of daemons, by key: pods without a rule get values that none of them names, if
        there are any."""
        self._keys = keys
        self.groups = [
            group
            for group in groups.pending
            if pool.key not in group.held and group.constraints.untolerated(pool.taints) is None
        ]
        rules: dict[str, list[ValueSet]] = {key: [] for key in keys}
        self._domains = {group: _domain_keys(group) for group in self.groups}
        for group in self.groups:
            for requirements in (*group.where, *(one.term.labels for one in group.constraints.preferences)):
                for key in rules.keys() & requirements.keys():
                    rules[key].append(requirements[key])
        of_domains = set().union(*self._domains.values())
        self.choices = {
            key: _choices(pool.requirements[key], rules[key], of_daemons[key], domains=key in of_domains)
            for key in keys
        }

    @property
    def first(self) -> Combination:
        """Return the combination for pods without rules about the labels."""
        return tuple(values[0] for values in self.choices.values())

    def list_combinations(self, most: int) -> list[Combination]:
        """Return the combinations that daemons, rules and preferences of pods distinguish: `first`, and then others.
        The list ends after ``most``."""
        every = product(*self.choices.values())
        few = prod(map(len, self.choices.values())) <= MOST_JOINT_COMBINATIONS
        found = dict.fromkeys([self.first])
        for combination in every if few else self._asked():
            if len(found) >= most:
                return list(found)
            found.setdefault(combination)
        for combination in every:
            if len(found) >= min(most, MOST_JOINT_COMBINATIONS):
                break
            found.setdefault(combination)
        return list(found)

    def find_required(self, group: PodGroup) -> Iterator[Combination]:
        """Yield one combination for each alternative of the group, and for each that it may have to share with others
        on its host."""
        yield from self._of_group(group, lambda one: self._accepted(group, one, alone=(), together=()))

    def find_needed(self, group: PodGroup) -> Iterator[Combination]:
        """Yield the combinations that the group's required rules distinguish: other values that they accept, and the
        domains of rules between pods."""
        hard = _hard_domain_keys(group)
        yield from self._of_group(group, lambda one: self._accepted(group, one, alone=one, together=hard))

    def find_preferred(self, group: PodGroup) -> Iterator[Combination]:
        """Yield all combinations that the rules and preferences of the group distinguish."""
        yield from self._of_group(group, lambda one: self._accepted_by_all(group, one))

    def _of_group(
        self, group: PodGroup, accepted: Callable[[Requirements], Iterator[Combination]]
    ) -> Iterator[Combination]:
        for requirements in (*group.where, *self._joined(group)):
            yield from accepted(requirements)

    def _asked(self) -> Iterator[Combination]:
        """Yield what each group asks for, and then what it may have to share with others on its host."""
        for group in self.groups:
            for requirements in group.where:
                yield from self._accepted_by_all(group, requirements)
        for group in self.groups:
            for requirements in self._joined(group):
                yield from self._accepted_by_all(group, requirements)

    @cached_property
    def _neighbours(self) -> Mapping[PodGroup, Sequence[PodGroup]]:
        return find_host_neighbours(self.groups)

    def _joined(self, group: PodGroup) -> Iterator[Requirements]:
        """Yield alternatives that the group may have to share with groups on its host: with each of these, as many
        others as have no contradictory rules, and for a direct neighbour also without others."""
        if group not in self._neighbours:
            return
        near = self._near(group)
        direct = {other.where for other in self._neighbours[group]}
        for where in near:
            both = [mine & its for mine, its in product(group.where, where)]
            for one in both:
                if not one.contradictions():
                    yield _with_all(one, near)
                    yield from [one] if where in direct else []

    def _near(self, group: PodGroup) -> list[Alternatives]:
        """Return the different rules about the open labels of the groups that may have to share a host with this one:
        its neighbours, their neighbours, and so on, nearest first."""
        reached = dict.fromkeys([group])
        for one in (queue := [group]):
            for other in self._neighbours[one]:
                if other not in reached and len(reached) < MOST_NEIGHBOURS:
                    reached[other] = None
                    queue.append(other)
        ruled = [one.where for one in reached if any(key in each for each in one.where for key in self._keys)]
        return list(dict.fromkeys(ruled))[:MOST_JOINED]

    def _accepted_by_all(self, group: PodGroup, requirements: Requirements) -> Iterator[Combination]:
        return self._accepted(group, requirements, alone=self._keys, together=self._domains[group])

    def _accepted(
        self, group: PodGroup, requirements: Requirements, *, alone: Collection[str], together: Collection[str]
    ) -> Iterator[Combination]:
        """Yield combinations that these requirements accept: one, those that differ from it in one of the labels
        ``alone``, and those of the labels ``together``."""
        options = [self._options(group, requirements, key) for key in self._keys]
        if all(options):
            base = [values[:1] for values in options]
            for at, (key, values) in enumerate(zip(self._keys, options, strict=True)):
                yield from product(*base[:at], values if key in alone else values[:1], *base[at + 1 :])
            joint = [values if key in together else values[:1] for key, values in zip(self._keys, options, strict=True)]
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


def _with_all(joint: Requirements, others: Iterable[Alternatives]) -> Requirements:
    """Return the requirements joined with an alternative of each of the others that does not contradict them."""
    for where in others:
        joint = next((both for one in where if not (both := joint & one).contradictions()), joint)
    return joint


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
    kept = _without_alike(sorted(named), [*rules, *of_daemons])
    if domains:
        kept = sorted([*kept, *sorted(named.difference(kept))[:MOST_DOMAINS]])
    return tuple(dict.fromkeys([usual, *kept, *needed]))


def _without_alike(values: Iterable[str], rules: Sequence[ValueSet]) -> list[str]:
    """Return the values without those that further ones of the same kind would only repeat."""
    named_by: dict[str, list[int]] = {}
    for number, rule in enumerate(dict.fromkeys(rules)):
        for value in rule.exceptions:
            named_by.setdefault(value, []).append(number)
    bounds = list(dict.fromkeys(map(_without_exceptions, rules)))
    seen: dict[tuple[object, ...], int] = {}
    kept = []
    for value in values:
        alike = (*named_by.get(value, ()), *(value in rule for rule in bounds))
        seen[alike] = seen.get(alike, 0) + 1
        if seen[alike] <= MOST_ALIKE:
            kept.append(value)
    return kept


def _distinguished(values: ValueSet, rules: Sequence[ValueSet]) -> list[ValueSet]:
    """Return these values, without ABSENT, in parts that each rule includes or excludes as a whole. No rule names one
    of the values."""
    whole = values - ValueSet.of(ABSENT)
    parts = [whole] if whole else []
    for rule in dict.fromkeys(map(_without_exceptions, rules)):
        parts = [part for one in parts for part in (one & rule, one - rule) if part]
    return parts


def _without_exceptions(rule: ValueSet) -> ValueSet:
    """Return the rule for values that it does not name: thousands of rules that name a value each are then one."""
    return replace(rule, exceptions=frozenset())


def _as_member(value: str | None) -> object:
    return ABSENT if value is None else value


def _domain_keys(group: PodGroup) -> set[str]:
    """Return the labels whose values are domains of the group's rules between pods."""
    spreads = {spread.topology_key for spread in group.constraints.spreads}
    return spreads | {term.topology_key for term in pod_terms(group.constraints)}


def _hard_domain_keys(group: PodGroup) -> set[str]:
    """Return the labels whose values are domains of required rules."""
    constraints = group.constraints
    spreads = {spread.topology_key for spread in constraints.spreads if spread.hard}
    return spreads | {term.topology_key for term in (*constraints.affinity, *constraints.anti_affinity)}
