"""What a survey of the instances found, one sentence for each thing."""

from collections.abc import Iterable, Mapping

from joiner.lifecycle.orphans import OrphanVerdict


def describe_instance_survey(
    verdict: OrphanVerdict,
    *,
    lease_holder: str,
    waves: Iterable[str],
    launches: Mapping[str, bool],
    freed: Iterable[str],
) -> list[str]:
    """Return the sentences.

    `lease_holder` held the lease and stopped; empty if none did. `waves` have no running execution. `launches` are not
    recorded yet, and give whether each is closed. `freed` names claims whose retirement lost its owner.
    """
    found = [f"{lease_holder} held the lease and does not run any more"] if lease_holder else []
    found += [f"no running execution awaits the nodes of wave {name}" for name in waves]
    found += [f"launch {one} is {'closed but not recorded' if closed else 'open'}" for one, closed in launches.items()]
    found += [f"no running execution retires {claim}" for claim in freed]
    if verdict.refused:
        found.append(f"{verdict.refused} orphans at once are probably wrong: no instance was terminated")
    return found + [case.message for case in (*verdict.retire, *verdict.collect, *verdict.rebuild)]
