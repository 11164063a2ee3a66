"""A node registers: it is matched to its claim by its instance, and gets what the claim specifies."""

from dataclasses import replace

from joiner.cluster import Taint
from joiner.lifecycle.registration import is_registered, joined_without_taint, match_nodes, registration_patch
from tests.unit.lifecycle.joining_nodes import FILLING, UNREGISTERED, claim, node


def test_a_claim_is_matched_to_the_node_of_its_instance() -> None:
    mine, other = node("node-1"), node("node-2", provider_id="aws:///us-east-1b/i-2")

    (match,) = match_nodes([claim()], [other, mine])

    assert match.node == mine


def test_a_claim_without_an_instance_has_no_node() -> None:
    (match,) = match_nodes([claim(provider_id="")], [node(provider_id="")])

    assert match.node is None


def test_two_nodes_of_one_instance_are_reported_and_none_is_matched() -> None:
    (match,) = match_nodes([claim()], [node("node-2"), node("node-1")])

    assert (match.node, match.others) == (None, ("node-1", "node-2"))


def test_registration_puts_on_labels_owner_and_finalizer_and_takes_the_guard_off() -> None:
    guarded = node(taints=[UNREGISTERED, FILLING])

    patch = registration_patch(claim(), guarded)

    assert patch == {
        "metadata": {
            "resourceVersion": "7",
            "labels": {
                "karpenter.sh/nodepool": "default",
                "node.kubernetes.io/instance-type": "m5.large",
                "karpenter.sh/registered": "true",
                "joiner.dev/shard": "1",
            },
            "annotations": {"joiner.dev/execution": "up-1"},
            "ownerReferences": [
                {
                    "apiVersion": "karpenter.sh/v1",
                    "kind": "NodeClaim",
                    "name": "default-a",
                    "uid": "uid-of-default-a",
                    "blockOwnerDeletion": True,
                }
            ],
            "finalizers": ["karpenter.sh/termination"],
        },
        "spec": {"taints": [FILLING]},
    }


def test_registration_keeps_other_owners_and_is_the_same_a_second_time() -> None:
    other = {"apiVersion": "v1", "kind": "Thing", "name": "t", "uid": "t-1"}
    first = registration_patch(claim(), replace(node(), owners=(other,)))["metadata"]["ownerReferences"]

    assert (
        registration_patch(claim(), replace(node(), owners=tuple(first)))["metadata"]["ownerReferences"]
        == first
        == [other, first[1]]
    )


def test_the_claims_taints_are_put_on_unless_the_node_opts_out() -> None:
    wanted = claim(taints=(Taint("team", "NoSchedule", "a"),))
    free, own = node(taints=[]), node(taints=[], labels={"karpenter.sh/do-not-sync-taints": "true"})

    assert registration_patch(wanted, free)["spec"]["taints"] == [{"key": "team", "value": "a", "effect": "NoSchedule"}]
    assert registration_patch(wanted, own)["spec"]["taints"] == []


def test_a_node_without_the_guard_did_not_start_from_our_user_data() -> None:
    assert joined_without_taint(node(taints=[FILLING]))
    assert not joined_without_taint(node(taints=[UNREGISTERED, FILLING]))
    assert not joined_without_taint(node(taints=[FILLING], labels={"karpenter.sh/registered": "true"}))
    assert is_registered(node(labels={"karpenter.sh/registered": "true"}))
