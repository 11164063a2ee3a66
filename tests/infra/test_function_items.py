"""The kinds of items and documents in the configuration of a function are those that its code uses."""

import re
from collections.abc import Mapping

from infra.function_configuration import CONFIGURATIONS
from tests.infra.conftest import ROOT
from tests.infra.table_calls import ACTIONS, called_actions

USES: Mapping[str, Mapping[str, str]] = {
    # What each method of a part of the ledger does with which kind of items; those without a part are the ledger's
    "absences.keep": {"updates_items": "ABSENT", "deletes_items": "ABSENT"},
    "absences.since": {"queries_items": "ABSENT"},
    "answers.all": {"gets_items": "ANSWERED"},
    "answers.buffer_claims": {"gets_items": "ANSWERED"},
    "answers.put": {"updates_items": "ANSWERED"},
    "answers.put_buffer_claims": {"updates_items": "ANSWERED"},
    "answers.refuse": {"gets_items": "ANSWERED", "updates_items": "ANSWERED"},
    "disruptions.all": {"queries_items": "DISRUPTION"},
    "disruptions.ask": {"updates_items": "DISRUPTION"},
    "disruptions.begin": {"updates_items": "DISRUPTION"},
    "disruptions.break_turn": {"updates_items": "LEASE"},
    "disruptions.end": {"deletes_items": "DISRUPTION"},
    "disruptions.last_proposal": {"gets_items": "PROPOSED"},
    "disruptions.moves": {"queries_items": "MOVED"},
    "disruptions.note_refusal": {"updates_items": "DISRUPTION"},
    "disruptions.note_written": {"updates_items": "DISRUPTION"},
    "disruptions.note_failure": {"updates_items": "DISRUPTION"},
    "disruptions.note_moves": {"updates_items": "MOVED"},
    "disruptions.note_proposal": {"updates_items": "PROPOSED"},
    "disruptions.turn": {"gets_items": "LEASE"},
    "drift_detections.last": {"gets_items": "DRIFT"},
    "drift_detections.note": {"updates_items": "DRIFT"},
    "disuse.keep": {"updates_items": "UNUSED", "deletes_items": "UNUSED"},
    "disuse.since": {"queries_items": "UNUSED"},
    "emptiness.all": {"queries_items": "EMPTY"},
    "emptiness.ask": {"updates_items": "EMPTY"},
    "emptiness.begin": {"updates_items": "EMPTY", "deletes_items": "EMPTY"},
    "emptiness.end": {"deletes_items": "EMPTY"},
    "impairments.keep": {"updates_items": "IMPAIRED", "deletes_items": "IMPAIRED"},
    "impairments.since": {"queries_items": "IMPAIRED"},
    "recommendations.note": {"updates_items": "RECOMMENDED"},
    "recommendations.postpone": {"updates_items": "RECOMMENDED"},
    "recommendations.since": {"queries_items": "RECOMMENDED"},
    "retirements.add": {"updates_items": "RETIREMENT"},
    "retirements.all": {"queries_items": "RETIREMENT"},
    "retirements.begin": {"updates_items": "RETIREMENT"},
    "retirements.disown": {"updates_items": "RETIREMENT"},
    "retirements.drop": {"updates_items": "RETIREMENT"},
    "retirements.explain": {"updates_items": "RETIREMENT"},
    "retirements.note_console": {"updates_items": "RETIREMENT"},
    "retirements.note_console_read": {"updates_items": "RETIREMENT"},
    "retirements.note_state_reason": {"updates_items": "RETIREMENT"},
    "retirements.forget": {"deletes_items": "RETIREMENT"},
    "retirements.give_up": {"updates_items": "RETIREMENT"},
    "retirements.hurry": {"updates_items": "RETIREMENT"},
    "retirements.of": {"gets_items": "RETIREMENT"},
    "retirements.see": {"updates_items": "RETIREMENT"},
    "warnings.all": {"queries_items": "INTERRUPTED"},
    "warnings.note": {"updates_items": "INTERRUPTED"},
    "assign": {"updates_items": "ASSIGNMENT"},
    "assign_all": {"updates_items": "ASSIGNMENT"},
    "assignments": {"queries_items": "ASSIGNMENT"},
    "back_off": {"gets_items": "BACKOFF", "updates_items": "BACKOFF"},
    "back_offs": {"queries_items": "BACKOFF"},
    "disruption_back_offs": {"queries_items": "BACKOFF"},
    "begin_launch": {"gets_items": "LAUNCH", "puts_items": "LAUNCH", "checks_items": "LEASE"},
    "awaited_claims": {"queries_items": "AWAITED"},
    "begin_wave": {"updates_items": "AWAITED WAVE"},
    "break_lease": {"updates_items": "LEASE"},
    "class_holds": {"queries_items": "BACKOFF"},
    "close_launch": {"gets_items": "LAUNCH", "updates_items": "LAUNCH"},
    "count_placed": {"updates_items": "WAVE"},
    "doorbell_secrets": {"gets_items": "DOORBELL"},
    "claims_of_wave": {"gets_items": "AWAITED"},
    "end_wave": {"deletes_items": "AWAITED WAVE"},
    "forget_instance": {"deletes_items": "INSTANCE"},
    "end_back_off": {"deletes_items": "BACKOFF"},
    "forget_pool_hold": {"deletes_items": "HELD"},
    "pool_holds": {"queries_items": "HELD"},
    "put_pool_hold": {"updates_items": "HELD"},
    "forget_launch": {"deletes_items": "LAUNCH"},
    "launch": {"gets_items": "LAUNCH"},
    "lease": {"gets_items": "LEASE"},
    "mark_recorded": {"updates_items": "LAUNCH"},
    "mark_unavailable": {"updates_items": "UNAVAILABLE"},
    "note_incomplete": {"updates_items": "LAUNCH"},
    "note_undeleted": {"updates_items": "ASSIGNMENT"},
    "note_verdict": {"updates_items": "BACKOFF"},
    "pair": {"gets_items": "INSTANCE", "updates_items": "INSTANCE"},
    "pair_again": {"updates_items": "INSTANCE"},
    "pair_all": {"gets_items": "INSTANCE", "updates_items": "INSTANCE"},
    "pairings": {"gets_items_in_batches": "INSTANCE"},
    "renew": {"updates_items": "LEASE"},
    "ring": {"updates_items": "LEASE"},
    "ring_wave": {"updates_items": "WAVE"},
    "see_wave": {"updates_items": "WAVE"},
    "unassign": {"deletes_items": "ASSIGNMENT"},
    "unavailable": {"queries_items": "UNAVAILABLE"},
    "unrecorded_launches": {"queries_items": "LAUNCH"},
    "wave": {"gets_items": "WAVE"},
    "waves": {"queries_items": "WAVE"},
}


RINGING = {"ring_scale_up": ("ring",), "ring_sweep": ("ring",), "ring_waves": ("waves", "ring_wave")}


CLASSES: Mapping[str, str] = {
    "absences": "Absences",
    "answers": "PlanningBackOffs",
    "disuse": "Disuse",
    "disruptions": "Disruptions",
    "drift_detections": "DriftDetections",
    "emptiness": "EmptyNodes",
    "impairments": "Impairments",
    "recommendations": "Recommendations",
    "retirements": "Retirements",
    "warnings": "InterruptionWarnings",
}
"""Each part of the ledger and its class; entries without a part belong to the ledger itself."""


NOTING = {
    "record_launch_failure": ("back_off", "mark_unavailable", "retirements.explain"),
    "records.assigned": ("assignments",),
    "records.unassign": ("unassign",),
    "records.note_failed": ("assignments", "pool_holds", "put_pool_hold"),
    "records.note_ready": ("assignments", "pool_holds", "forget_pool_hold"),
    "records.note_good_class": ("end_back_off",),
}
"""What modules of `joiner.adapters` call for a function, by their own functions and methods."""


PARTS = (*CLASSES, "ledger")


DOCUMENTS = {
    "catalogue": "catalogue",
    "console": "consoles",
    "events": "events",
    "free_addresses": "free-addresses",
    "instances": "instances",
    "launch": "launches",
    "launches": "launches",
    "node_classes": "node-classes",
    "plan": "plans",
    "pod_events": "pod-events",
    "proposal": "decisions",
    "observed_memory": "observed-memory",
    "pending_classes": "snapshots",
    "snapshot": "snapshots",
    "snapshot_to_plan": "snapshots",
    "spot_hours": "spot-hours",
    "survey": "surveys",
    "validations": "validations",
}


def test_a_configuration_has_the_kinds_that_the_code_of_its_function_uses() -> None:
    for name, configuration in CONFIGURATIONS.items():
        source = "".join(path.read_text() for path in sorted((ROOT / "functions" / name).glob("*.py")))
        calls = re.findall(rf"({'|'.join(PARTS)})(?:\(\))?\.(\w+)", source)
        called = {method if part == "ledger" else f"{part}.{method}" for part, method in calls} & set(USES)
        called |= {
            method for helper, methods in (RINGING | NOTING).items() if f"{helper}(" in source for method in methods
        }
        kept, read = (set(re.findall(rf"(?:documents|spot_history)\.{verb}_(\w+)", source)) for verb in ("put", "get"))
        read |= {"snapshot"} if "KeptSnapshot.read(" in source else set()

        # These write with their own calls: the doorbell's token, the record of the cluster
        if name not in ("install_manifests", "describe_cluster"):
            for what in ACTIONS:
                used = {kind for method in called for kind in USES[method].get(what, "").split()}
                assert used == set(getattr(configuration, what)), (
                    name,
                    what,
                    called,
                )
        assert {DOCUMENTS[each] for each in read} == set(configuration.reads_documents), name
        assert {DOCUMENTS[each] for each in kept} == set(configuration.writes_documents), name


def test_the_uses_name_the_calls_that_the_methods_make() -> None:
    for use, kinds in USES.items():
        part, _, method = use.rpartition(".")
        asked = {action for what in kinds for action in ACTIONS[what]}
        assert called_actions(CLASSES.get(part, "Ledger"), method) == asked, use
