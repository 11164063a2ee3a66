"""The offers of a pool beside the daemons of each variant: a daemon may have rules about a label that the pool leaves
open, so that it runs on the nodes of some variants only.

As in Karpenter, a daemon counts on a node with the labels that the requirements of the pool give to it.
"""

from collections.abc import Mapping

from joiner.cluster import ABSENT, ValueSet
from joiner.planning.model.node_labels import open_keys
from joiner.planning.model.node_offers import NodeOffer, OfferSet
from joiner.planning.model.offer_compilation import DaemonOverhead, rules_of_daemon
from joiner.planning.model.pod_groups import PodGroups
from joiner.pools import NodePool


class OffersBesideDaemons:
    """The offers of one pool by the labels of a variant. Variants that no daemon distinguishes share their offers.
    ``rules`` are those of daemons about each open label."""

    def __init__(self, pool: NodePool, offer_set: OfferSet, groups: PodGroups) -> None:
        """``offer_set`` has the offers beside the daemons that have no rules about open labels."""
        self._offer_set = offer_set
        self._overhead = DaemonOverhead(pool, groups, of_open_labels=True)
        self.rules: dict[str, list[ValueSet]] = {key: [] for key in open_keys(pool)}
        for at in self._overhead.positions:
            for rule in rules_of_daemon(groups.daemons[at][0]):
                for key in self.rules.keys() & rule.keys():
                    self.rules[key].append(rule[key])

    def on(self, labels: Mapping[str, str]) -> OfferSet:
        """Return the offers of nodes with these values of the open labels."""
        if not self._overhead.positions:
            return self._offer_set
        verdicts = tuple(
            labels.get(key, ABSENT) in values for key, each in sorted(self.rules.items()) for values in each
        )
        # An offer set belongs to one pool and its daemons, so the verdicts determine the result.
        return (
            self._offer_set.kept((OffersBesideDaemons, verdicts), lambda: self._add_daemons(labels)) or self._offer_set
        )

    def _add_daemons(self, labels: Mapping[str, str]) -> OfferSet | None:
        """Return the offers beside the daemons on nodes with these labels; None if there are none on any offer."""
        found: list[NodeOffer] = []
        of_model, node_labels, added = None, dict[str, str](), False
        for one in self._offer_set.launchable:
            if one.model is not of_model:
                of_model, node_labels = one.model, {**one.model.labels, **labels}
            here, taken, requests = self._overhead.on(node_labels, one.place)
            added = added or bool(here)
            found.append(one.beside(here, taken, requests) if here else one)
        return OfferSet(found) if added else None
