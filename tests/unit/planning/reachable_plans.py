"""A second exhaustive planner for small clusters: it follows every order in which the scheduler can place pods.

It imports nothing of the library. ``brute_force`` divides all pods of a subset at once, which takes too long for more
than seven pods. Here a plan is only how many pods of each app are on each node, so equal plans are visited once,
whatever the order of their pods.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tests.unit.planning.brute_force import RUNNING, App, TinyCluster, placed_by_priority
from tests.unit.planning.drawn_clusters import HOST

Contents = tuple[int, ...]
"""The number of planned pods of each app on one node."""
Places = tuple[tuple[str, str, Contents], ...]
"""Zone, name and contents of each node; the names of new nodes are empty, because new nodes are alike."""


class TooMany(Exception):
    """There are more plans than the search may visit."""


@dataclass(frozen=True)
class ReachablePlans:
    """All plans of one cluster that the scheduler can reach pod by pod, at most ``most`` of them."""

    cluster: TinyCluster
    most: int = 100_000

    def better_than(self, placed: tuple[int, ...]) -> Places | None:
        """Return a plan that places more pods than these (by priority, highest first); None if there is none.

        Raises TooMany if there are too many plans to know.
        """
        apps = self.cluster.apps
        start: Places = tuple((one.zone, one.name, (0,) * len(apps)) for one in self.cluster.nodes)
        seen, waiting = {start}, [start]
        while waiting:
            plan = waiting.pop()
            if self._worth(plan) > placed:
                return plan
            for more in self._next(plan):
                if more not in seen:
                    if len(seen) >= self.most:
                        raise TooMany
                    seen.add(more)
                    waiting.append(more)
        return None

    def _worth(self, plan: Places) -> tuple[int, ...]:
        return self._by_priority([sum(inside[at] for *_, inside in plan) for at in range(len(self.cluster.apps))])

    def _by_priority(self, numbers: list[int]) -> tuple[int, ...]:
        named = Counter({app.name: number for app, number in zip(self.cluster.apps, numbers, strict=True)})
        return placed_by_priority(self.cluster, named)

    def _next(self, plan: Places) -> Iterator[Places]:
        """Yield the plans with one more pod."""
        new = tuple((zone, "", (0,) * len(self.cluster.apps)) for zone in self.cluster.zones)
        for at, app in enumerate(self.cluster.apps):
            if sum(inside[at] for *_, inside in plan) == app.pods or self._is_claimed(app, plan):
                continue
            tried = set()
            for position, place in enumerate((*plan, *new)):
                others = (*plan[:position], *plan[position + 1 :])
                if place in tried or not self._accepts(app, place, others):
                    continue
                tried.add(place)
                inside = place[2]
                changed = (*place[:2], (*inside[:at], inside[at] + 1, *inside[at + 1 :]))
                more = (*others, changed)
                if self._within_limits(more):
                    yield tuple(sorted(more))

    def _is_claimed(self, app: App, plan: Places) -> bool:
        """Return whether a pod has the claim of the app."""
        having = [at for at, one in enumerate(self.cluster.apps) if app.claim and one.claim == app.claim]
        return any(inside[at] for *_, inside in plan for at in having)

    def _accepts(self, app: App, here: tuple[str, str, Contents], others: Places) -> bool:
        """Return whether the scheduler accepts one more pod of the app on this node now."""
        zone, name, inside = here
        if app.zone not in ("", zone) or not self._fits(name, inside, app):
            return False
        if app.port and any(number and one.port for one, number in zip(self.cluster.apps, inside, strict=True)):
            return False
        on_host = self._count((here,))
        in_zone = self._count(tuple(one for one in (here, *others) if one[0] == zone))
        for one in self.cluster.apps:
            for key, other in one.apart:
                near = on_host if key == HOST else in_zone
                counted = other if one is app else one.name
                if (one is app or other == app.name) and near.get(counted, 0):
                    return False
        return self._keeps_spreads(app, here, others) and self._follows(app, on_host, in_zone, (here, *others))

    def _fits(self, name: str, inside: Contents, app: App) -> bool:
        cpu, memory = self._need(inside)
        cpu, memory = cpu + app.cpu, memory + app.memory
        if not name:
            return any(free >= cpu and gib >= memory for free, gib, _ in self.cluster.shapes)
        [one] = [one for one in self.cluster.nodes if one.name == name]
        running = len(one.apps)
        return 1000 * one.cpu - RUNNING[0] * running >= cpu and 1024 * one.gib - RUNNING[1] * running >= memory

    def _need(self, inside: Contents) -> tuple[int, int]:
        apps = self.cluster.apps
        return (
            sum(number * one.cpu for one, number in zip(apps, inside, strict=True)),
            sum(number * one.memory for one, number in zip(apps, inside, strict=True)),
        )

    def _count(self, places: Places) -> dict[str, int]:
        """Return the number of pods of each app on these nodes, with those that run there."""
        found: dict[str, int] = {}
        for _, name, inside in places:
            for one, number in zip(self.cluster.apps, inside, strict=True):
                found[one.name] = found.get(one.name, 0) + number
            for there in next((one.apps for one in self.cluster.nodes if one.name == name), ()):
                found[there] = found.get(there, 0) + 1
        return found

    def _keeps_spreads(self, app: App, here: tuple[str, str, Contents], others: Places) -> bool:
        for spread in app.spreads:
            counted = spread.app or app.name
            itself = counted == app.name
            if spread.key == HOST:
                if self._count((here,)).get(counted, 0) + itself > spread.skew:
                    return False
                continue
            zones = {one.zone for one in self.cluster.nodes} | set(self.cluster.zones if self.cluster.holds_any else ())
            zones = {zone for zone in zones if app.zone in ("", zone)}
            counts = {
                zone: self._count(tuple(one for one in (here, *others) if one[0] == zone)).get(counted, 0)
                for zone in zones
            }
            counts[here[0]] = counts.get(here[0], 0) + itself
            lowest = 0 if len(zones) < spread.min_domains else min((counts[zone] for zone in zones), default=0)
            if counts[here[0]] - lowest > spread.skew:
                return False
        return True

    def _follows(self, app: App, on_host: dict[str, int], in_zone: dict[str, int], places: Places) -> bool:
        """Return whether the pod is beside pods that match all terms of its affinity, or is the first of its kind."""
        if not app.beside:
            return True
        meant = {other for _, other in app.beside}
        if len(meant) > 1:  # No pod matches two names.
            return False
        [other] = meant
        if all((on_host if key == HOST else in_zone).get(other, 0) for key, _ in app.beside):
            return True
        return other == app.name and not self._count(places).get(other, 0)

    def _within_limits(self, plan: Places) -> bool:
        new = [self._need(inside) for _, name, inside in plan if not name]
        if not self.cluster.limits:
            return True
        sizes = [min(count for free, gib, count in self.cluster.shapes if free >= c and gib >= m) for c, m in new]
        used = {"cpu": sum(sizes), "nodes": len(new)}
        return all(used[name] <= limit for name, limit in self.cluster.limits)
