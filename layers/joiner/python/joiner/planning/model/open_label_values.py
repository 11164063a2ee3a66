"""The values that nodes of a pool may get for the labels that it leaves open, as far as pods and daemon sets
distinguish them.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Final

from joiner.cluster import ABSENT, Requirements, ValueSet
from joiner.planning.model.pod_groups import PodGroup, PodGroups, pod_terms
from joiner.pools import NodePool

MOST_JOINT_COMBINATIONS: Final = 64
"""Up to this number, all combinations of the values of several labels are variants of a pool. Of more, those that some
group of pods asks for are, without a limit, and others up to this number: two groups whose pods ask for different
labels then may not share a node, but each gets its own."""

Combination = tuple[str | None, ...]
"""A value for each open label; None: the node has no such label."""


class OpenLabelValues:
    """The values of the open labels of one pool that its variants combine, by key; the first is for pods without a rule
    about the label."""

    def __init__(
        self, pool: NodePool, keys: Sequence[str], groups: PodGroups, of_daemons: Mapping[str, ValueSet]
    ) -> None:
        """``of_daemons`` are the values that daemons name, by key: pods without a rule get others, if there are any."""
        self._keys = keys
        self._groups = [
            group
            for group in groups.pending
            if pool.key not in group.held and group.constraints.untolerated(pool.taints) is None
        ]
        self._rules: dict[str, list[ValueSet]] = {key: [] for key in keys}
        self._domains = {group: _domain_keys(group) for group in self._groups}
        for group in self._groups:
            for requirements in (*group.where, *(one.term.labels for one in group.constraints.preferences)):
                for key in self._rules.keys() & requirements.keys():
                    self._rules[key].append(requirements[key])
        of_domains = set().union(*self._domains.values())
        self.choices = {
            key: _choices(pool.requirements[key], self._rules[key], of_daemons[key], all_values=key in of_domains)
            for key in keys
        }

    def combinations(self) -> list[Combination]:
        """Return the combinations that variants have; the first has the first value of each label."""
        every = product(*self.choices.values())
        number = 1
        for values in self.choices.values():
            number *= len(values)
        if number <= MOST_JOINT_COMBINATIONS:
            return list(every)
        found = dict.fromkeys([tuple(values[0] for values in self.choices.values())])
        for group in self._groups:
            found.update(dict.fromkeys(self._asked_by(group)))
        for combination in every:
            if len(found) >= MOST_JOINT_COMBINATIONS:
                break
            found.setdefault(combination)
        return list(found)

    def _asked_by(self, group: PodGroup) -> Iterator[Combination]:
        """Yield, for each alternative of the group's rules, a combination that it accepts, and those that differ from
        this in one label."""
        for requirements in group.where:
            options = [self._options(group, requirements, key) for key in self._keys]
            if all(options):
                base = tuple(values[0] for values in options)
                yield base
                for at, values in enumerate(options):
                    yield from ((*base[:at], value, *base[at + 1 :]) for value in values[1:])

    def _options(self, group: PodGroup, requirements: Requirements, key: str) -> list[str | None]:
        """Return the values of a label that the group distinguishes, and that these requirements accept."""
        values, preferred = self.choices[key], group.constraints.preferences
        if key in requirements:
            return [value for value in values if _as_member(value) in requirements[key]]
        if key in self._domains[group]:
            return list(values)
        liked = [one.term.labels[key] for one in preferred if key in one.term.labels]
        return [values[0], *(one for one in values[1:] if any(_as_member(one) in each for each in liked))]


def _choices(
    possible: ValueSet, rules: Sequence[ValueSet], of_daemons: ValueSet, *, all_values: bool
) -> tuple[str | None, ...]:
    """Return the value for pods without a rule, those that rules name, and one for each other set of values that rules
    distinguish: such as those below a bound, or any at all where the label may be missing."""
    named = {value for rule in rules for value in rule.exceptions if value in possible}
    if possible.finite and (rules or all_values):
        named.update(possible)
    unnamed = possible - ValueSet.of(*named)
    usual = None if possible.absent else str((unnamed - of_daemons or unnamed or possible).any_value())
    further = (str((one - of_daemons or one).any_value()) for one in _distinguished(unnamed, rules))
    needed = [value for value in further if any(value in rule and _as_member(usual) not in rule for rule in rules)]
    return tuple(dict.fromkeys([usual, *sorted(named), *needed]))


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
