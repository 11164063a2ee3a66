"""Each action of a wave keeps affinity and anti-affinity also if any of the others does not happen, and those that are
left of a proposal after the second one keep every rule.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import given

from joiner.catalogue import Catalogue
from joiner.cluster import Taint
from joiner.disruption.dependent_actions import PodMove, join_dependent_actions
from joiner.disruption.disruption_history import DisruptionHistory
from joiner.disruption.found_actions import FoundAction
from joiner.disruption.proposal import Proposal
from joiner.disruption.wave_choice import WaveInputs, propose_wave
from joiner.planning import Snapshot
from joiner.planning.plan_policies import NO_CEILINGS
from joiner.planning.state.pod_topology import DomainCounts, GroupRules
from tests.law_settings import examples
from tests.plan_checker import check_plan
from tests.unit.disruption.initialized_nodes import claim_and_node, replica
from tests.unit.disruption.proposed_consolidations import NOW, cluster, drawn, proposed
from tests.unit.disruption.test_consolidation_laws import Lists, as_plan, fragmented_clusters, without_removed
from tests.unit.disruption.test_consolidation_laws import proposed as proposed_of_law
from tests.unit.disruption.test_wave_choice import DRIFT, REFERENCE
from tests.unit.planning.drawn_clusters import CATALOGUE, CLASSES, ZONE, ZONES, Json, affinity, near, spread

PROTECTED = {"karpenter.sh/do-not-disrupt": "true"}
MOST_SUBSETS = 12


def broken_subsets(lists: Lists, proposal: Proposal) -> list[str]:
    """Return the rules that are broken if only some of the actions happen, smaller subsets first."""
    sizes = range(1, len(proposal.actions))
    subsets = itertools.chain.from_iterable(itertools.combinations(proposal.actions, size) for size in sizes)
    found = []
    for some in itertools.islice(subsets, MOST_SUBSETS):
        part = replace(proposal, actions=some)
        broken = check_plan(without_removed(lists, part), CATALOGUE, as_plan(part), tolerance=10.0)
        found += [f"{[each.claims for each in some]}: {why}" for why in broken]
    return found


def two_nodes(first: Sequence[Json], second: Sequence[Json]) -> Lists:
    """Return two nodes in one zone with these pods, and in another zone a large one that stays and has room."""
    return cluster(
        claim_and_node("first", kind="s.large"),
        claim_and_node("second", kind="s.large"),
        claim_and_node("room", kind="m.2xlarge", zone=ZONES[1], annotations=PROTECTED),
        pods=[*first, *second],
    )


def confirmed(lists: Lists, before: Proposal | None = None) -> Proposal:
    inputs = WaveInputs(Catalogue.from_json(CATALOGUE), (), CLASSES, NO_CEILINGS, DisruptionHistory())
    return propose_wave(Snapshot.from_lists(lists), inputs, NOW, before)


def pods_of(app: str, node: str, count: int, cpu: str, **fields: Any) -> list[Json]:
    return [replica(f"{app}-{number}", f"node-{node}", app=app, cpu=cpu, **fields) for number in range(count)]


def test_a_pod_that_follows_another_to_its_zone_leaves_with_it() -> None:
    """The cache moves to the only room there is, and then the web pods can follow. Without the cache they cannot."""
    web = pods_of("web", "second", 2, "600m", **affinity(podAffinity=[near(ZONE, "cache")]))
    lists = two_nodes(pods_of("cache", "first", 1, "1200m"), web)

    proposal = proposed(lists)

    assert drawn(proposal) == ["first+second -> cache-0:node-room web-0:node-room web-1:node-room"]


def two_rooms(first: Json, second: Json, *others: Json, small: str, large: str) -> Lists:
    """Return a node with a pod in zone b and one in zone a, and room in the other zone of each: little room in zone
    `small`, so that the larger pod fits only in zone `large`."""
    return cluster(
        claim_and_node("first", zone=ZONES[1]),
        claim_and_node("second", zone=ZONES[0]),
        claim_and_node("small", zone=small, annotations=PROTECTED),
        claim_and_node("large", kind="m.2xlarge", zone=large, annotations=PROTECTED),
        claim_and_node("c", zone=ZONES[2], annotations=PROTECTED),
        pods=[first, second, replica("filler", "node-small", app="filler", cpu="700m"), *others],
    )


def test_a_pod_that_comes_where_another_one_left_leaves_with_it() -> None:
    """The database moves to zone c, and then zone b has none: the web pod may go there."""
    database = replica("db", "node-first", app="db", cpu="1500m")
    web = replica("web", "node-second", app="web", cpu="900m", **affinity(podAntiAffinity=[near(ZONE, "db")]))

    proposal = proposed(two_rooms(database, web, small=ZONES[1], large=ZONES[2]))

    assert drawn(proposal) == ["first+second -> db:node-c web:node-small"]


def test_what_is_left_of_a_proposal_keeps_every_rule_without_the_rest() -> None:
    """One pod in each zone. The second one may move to zone b because the first one moves from there to zone a."""
    first = replica("free", "node-first", app="web", cpu="900m")
    second = replica("level", "node-second", app="web", cpu="1500m", topologySpreadConstraints=[spread()])
    third = replica("third", "node-c", app="web", cpu="1800m")
    lists = two_rooms(first, second, third, small=ZONES[0], large=ZONES[1])

    proposal = confirmed(lists)
    one, other = proposal.actions

    assert drawn(proposal) == ["first -> free:node-small", "second -> level:node-large"]
    assert drawn(confirmed(lists, proposal)) == drawn(proposal)
    assert drawn(confirmed(lists, replace(proposal, actions=(one,)))) == ["first -> free:node-small"]
    assert drawn(confirmed(lists, replace(proposal, actions=(other,)))) == []


def test_what_is_left_of_replacements_is_planned_anew_without_the_rest() -> None:
    """The web pods follow the cache to another zone. Without the cache they need a new node in their own zone, which
    the first proposal does not contain."""
    web = pods_of("web", "second", 2, "900m", **affinity(podAffinity=[near(ZONE, "cache")]))
    lists = two_nodes(pods_of("cache", "first", 1, "1200m"), web)
    for claim in lists["nodeclaims"][:2]:
        claim["status"]["conditions"].append(DRIFT)
    lists["ec2nodeclasses"] = [REFERENCE]

    proposal = confirmed(lists)
    one, other = proposal.actions

    assert drawn(proposal) == ["first -> cache-0:node-room", "second -> web-0:node-room web-1:node-room"]
    assert drawn(confirmed(lists, proposal)) == drawn(proposal)
    assert drawn(confirmed(lists, replace(proposal, actions=(one,)))) == ["first -> cache-0:node-room"]
    assert drawn(confirmed(lists, replace(proposal, actions=(other,)))) == []


def test_pods_without_such_a_rule_leave_independently() -> None:
    lists = two_nodes(pods_of("cache", "first", 1, "1200m"), pods_of("web", "second", 2, "600m"))

    assert sorted(drawn(proposed(lists))) == [
        "first -> cache-0:node-room",
        "second -> web-0:node-room web-1:node-room",
    ]


@dataclass
class Zone:
    """A node in a zone, as rules see it."""

    name: str
    taints: Sequence[Taint] = ()
    answers: dict[object, bool] = field(default_factory=dict)

    @property
    def labels(self) -> Mapping[str, str]:
        return {ZONE: self.name}


def two_of_three(join: Callable[[FoundAction, FoundAction], FoundAction | None]) -> tuple[list[str], list[str]]:
    """Return which actions are left and postponed of three: the web pod needs the cache in its new zone."""
    names = ["cache", "web", "batch"]
    counts = {name: DomainCounts(ZONE) for name in names}
    for each in counts.values():
        each.add(Zone("b"), 1)
    rules = {name: GroupRules(feeds=[counts[name]]) for name in names}
    rules["web"].affinity.append(counts["cache"])
    actions = {FoundAction((), (), float(number), None): name for number, name in enumerate(names)}
    moves = {one: [PodMove(rules[name], Zone("a"), Zone("b"))] for one, name in actions.items()}
    found = join_dependent_actions(list(actions), moves.__getitem__, join)
    return ([actions.get(one, "joined") for one in found.actions], [actions[one] for one in found.postponed])


def test_an_action_that_may_not_be_joined_is_left_to_the_next_wave() -> None:
    assert two_of_three(lambda _one, _other: FoundAction((), (), 9.0, None)) == (["joined", "batch"], [])
    assert two_of_three(lambda _one, _other: None) == (["cache", "batch"], ["web"])


@examples(40, repeated=20)
@given(fragmented_clusters())
def test_each_part_of_a_wave_keeps_all_rules_where_nothing_is_spread(lists: Lists) -> None:
    pods = [{**pod, "spec": {**pod["spec"], "topologySpreadConstraints": []}} for pod in lists["pods"]]

    assert broken_subsets({**lists, "pods": pods}, proposed_of_law({**lists, "pods": pods})) == []
