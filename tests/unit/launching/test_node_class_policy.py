"""Values that the settings do not allow are refused with the field, the value and the remedy, and never replaced by
something allowed.
"""

from dataclasses import replace
from typing import Any

import pytest

from joiner.launching.node_class_policy import AllowedResources, NodeClassPolicy
from joiner.launching.node_class_queries import build_queries
from joiner.launching.node_class_resolution import resolve_node_class
from joiner.pools import (
    CapacityReservationTerm,
    ImageTerm,
    InvalidManifests,
    NodeClass,
    SecurityGroupTerm,
    SubnetTerm,
    read_node_class,
)
from joiner.pools.node_class import PlacementGroupTerm
from tests.unit.launching.launch_scenario import (
    CEILINGS,
    GROUPS,
    SUBNETS,
    TEMPLATE,
    VERSION,
    found,
    parameters,
    resolved,
)

FOREIGN = "099720109477"
EKS = "602401143452"
MODERN = replace(TEMPLATE, kind="EC2NodeClass", ami_family="AL2023")


def image(identifier: str, owner: str, alias: str = "") -> dict[str, Any]:
    described = {"ImageId": identifier, "Architecture": "x86_64", "CreationDate": "2026-11-01", "OwnerId": owner}
    return described | ({"ImageOwnerAlias": alias} if alias else {})


def refusals(node_class: NodeClass, ceilings: NodeClassPolicy = CEILINGS, **answers: Any) -> list[tuple[str, str, str]]:
    """Return condition, reason and message of each error."""
    there = resolve_node_class(node_class, found(**answers), ceilings, cluster="prod", kubernetes_version=VERSION)
    return [(each.condition, each.reason, each.message) for each in there.problems if each.severity == "error"]


def test_an_owner_outside_the_settings_is_queried_as_named_and_refused() -> None:
    greedy = replace(
        MODERN, image_terms=(ImageTerm(name="ubuntu-*", owner=FOREIGN), ImageTerm(name="mine-*", owner="self"))
    )

    assert [
        each.owners
        for each in build_queries(greedy, VERSION, cluster="prod", image_owners=CEILINGS.image_owners).images
    ] == [
        (FOREIGN,),
        ("self",),
    ]
    for images in ([image("ami-1", FOREIGN), image("ami-2", "123456789012")], [image("ami-2", "123456789012")]):
        assert refusals(greedy, images=images) == [
            (
                "AMIsReady",
                "ImageOwnerNotAllowed",
                f"spec.amiSelectorTerms[0].owner: nodes may not boot images of {FOREIGN}; the settings allow "
                f"amazon, self: "
                "write one of those, as it stands there, or add the owner to imageOwners in clusters/NAME.yaml "
                "and deploy",
            )
        ]


def test_an_owner_in_a_legacy_selector_is_refused() -> None:
    old = replace(TEMPLATE, image_terms=(ImageTerm(name="x", owner=FOREIGN),))

    assert refusals(old, images=[image("ami-1", FOREIGN)])[0][2].startswith(
        f"spec.amiSelector[aws::owners]: nodes may not boot images of {FOREIGN}"
    )


@pytest.mark.parametrize(
    ("owner", "images"),
    [
        ("amazon", [image("ami-1", EKS, "amazon")]),
        ("self", [image("ami-1", "123456789012")]),
        ("123456789012", [image("ami-1", "123456789012")]),
    ],
)
def test_an_owner_of_the_ceiling_may_be_named_and_the_own_account_by_its_number(
    owner: str, images: list[dict[str, Any]]
) -> None:
    assert refusals(replace(MODERN, image_terms=(ImageTerm(name="x", owner=owner),)), images=images) == []


@pytest.mark.parametrize("owner", [EKS, FOREIGN])
def test_a_number_behind_the_alias_of_amazon_is_refused_for_partners_have_it_too(owner: str) -> None:
    named = replace(MODERN, image_terms=(ImageTerm(name="x", owner=owner),))

    assert [reason for _, reason, _ in refusals(named, images=[image("ami-1", owner, "amazon")])] == [
        "ImageOwnerNotAllowed"
    ]


@pytest.mark.parametrize(
    "term", [ImageTerm(name="amazon-*", owner=EKS), ImageTerm(name="amazon-*"), ImageTerm(id="ami-2")]
)
def test_images_of_an_owner_with_an_alias_need_the_alias_in_the_settings(term: ImageTerm) -> None:
    """IAM knows the owner of these images as `amazon`, so a number in the settings allows no launch."""
    by_number = replace(CEILINGS, image_owners=(EKS, "self"))
    images = [image("ami-2", EKS, "amazon"), image("ami-1", EKS, "amazon"), image("ami-3", "123456789012")]
    named = replace(MODERN, image_terms=(term,))

    assert refusals(named, by_number, images=images) == [
        (
            "AMIsReady",
            "ImageOwnerNotAllowed",
            f"spec.amiSelectorTerms: the owner of ami-1 and 1 more, {EKS}, has the alias amazon, and IAM knows it by "
            "this alias only: write amazon in imageOwners in clusters/NAME.yaml and deploy, or select other images",
        )
    ]
    assert refusals(named, replace(by_number, image_owners=(EKS, "amazon")), images=images) == []


def test_images_of_an_owner_without_an_alias_need_its_number_in_the_settings() -> None:
    ceilings = replace(CEILINGS, image_owners=("111122223333",))
    named = replace(MODERN, image_terms=(ImageTerm(name="mine-*"),))

    assert refusals(named, ceilings, images=[image("ami-1", "111122223333")]) == []


def test_the_own_account_named_by_number_in_the_settings_is_self() -> None:
    ceilings = replace(CEILINGS, image_owners=("123456789012",))
    own = replace(MODERN, image_terms=(ImageTerm(name="x", owner="self"),))

    assert refusals(own, ceilings, images=[image("ami-1", "123456789012")]) == []


@pytest.mark.parametrize(
    "node_class", [TEMPLATE, replace(MODERN, image_terms=(ImageTerm(alias="al2023@latest"),))], ids=["family", "alias"]
)
def test_amazons_images_are_refused_where_the_settings_do_not_name_amazon(node_class: NodeClass) -> None:
    own_only = replace(CEILINGS, image_owners=("self",))

    ((condition, reason, message),) = refusals(node_class, own_only, parameters=parameters())

    assert (condition, reason) == ("AMIsReady", "ImageOwnerNotAllowed")
    assert "images of amazon" in message


def test_an_image_id_that_is_not_found_is_reported_where_others_are_used() -> None:
    two = replace(MODERN, image_terms=(ImageTerm(id="ami-1"), ImageTerm(id="ami-2")))

    there = resolved(two, images=[image("ami-2", "123456789012")])

    assert there.ready
    assert [(each.reason, each.severity) for each in there.problems] == [
        ("ImageNotFound", "warning"),
        ("RoleAssumed", "info"),
    ]
    assert "no image ami-1 of amazon, self" in there.problems[0].message


@pytest.mark.parametrize(
    "manifest",
    [
        {"kind": "EC2NodeClass", "spec": {"amiFamily": "AL2023", "amiSelectorTerms": [{"owner": "self"}]}},
        {"kind": "AWSNodeTemplate", "spec": {"amiSelector": {"aws::owners": "self"}}},
    ],
    ids=["EC2NodeClass", "AWSNodeTemplate"],
)
def test_an_owner_alone_selects_nothing(manifest: dict[str, Any]) -> None:
    with pytest.raises(InvalidManifests, match=r"alone selects all of (its|their) images"):
        read_node_class(manifest | {"metadata": {"name": "greedy"}})


def test_a_subnet_or_group_without_the_clusters_tags_is_refused_even_beside_allowed_ones() -> None:
    both = replace(
        MODERN,
        subnet_terms=(SubnetTerm(id="subnet-db"), SubnetTerm(id="subnet-a1")),
        security_group_terms=(SecurityGroupTerm(name="db"),),
    )
    database = {
        "SubnetId": "subnet-db",
        "AvailabilityZone": "us-east-1a",
        "Tags": [{"Key": "karpenter.sh/discovery", "Value": "other"}],
    }

    assert refusals(
        both, subnets=(*SUBNETS, database), security_groups=(*GROUPS, {"GroupId": "sg-db", "GroupName": "db"})
    ) == [
        (
            "SubnetsReady",
            "SubnetNotAllowed",
            "spec.subnetSelectorTerms: the settings do not allow the subnet subnet-db; they allow tag "
            "karpenter.sh/discovery = prod: "
            "tag it so, select others, or add it to nodeClasses.subnets in clusters/NAME.yaml and deploy",
        ),
        (
            "SecurityGroupsReady",
            "SecurityGroupNotAllowed",
            "spec.securityGroupSelectorTerms: the settings do not allow the security group sg-db; they allow "
            "tag karpenter.sh/discovery = prod: tag it so, select others, or add it to "
            "nodeClasses.securityGroups in clusters/NAME.yaml "
            "and deploy",
        ),
    ]


def test_the_selectors_that_an_inline_provider_has_by_default_select_nothing_beyond_the_settings() -> None:
    """The default selects any value of the cluster's tag; the settings allow `owned` and `shared`."""
    by_tag = AllowedResources(tags={"kubernetes.io/cluster/prod": ("owned", "shared")})
    strange = [{"Key": "kubernetes.io/cluster/prod", "Value": "other"}]

    there = resolve_node_class(
        NodeClass("default", "Inline"),
        found(
            subnets=[{**SUBNETS[0], "Tags": strange}],
            security_groups=[{"GroupId": "sg-db", "Tags": strange}],
        ),
        replace(CEILINGS, subnets=by_tag, security_groups=by_tag),
        cluster="prod",
        kubernetes_version=VERSION,
    )

    assert [problem.reason for problem in there.problems if problem.severity == "error"] == [
        "SubnetNotAllowed",
        "SecurityGroupNotAllowed",
    ]


def test_the_clusters_own_subnets_and_group_are_allowed_only_where_the_settings_do() -> None:
    untagged = {"subnets": [{**SUBNETS[0], "Tags": []}], "security_groups": [{"GroupId": "sg-cluster"}]}
    default = replace(
        CEILINGS, subnets=AllowedResources(of_cluster=True), security_groups=AllowedResources(of_cluster=True)
    )

    assert refusals(TEMPLATE, default.with_own(["subnet-a1"], "sg-cluster"), **untagged) == []
    assert [
        reason for _, reason, _ in refusals(TEMPLATE, CEILINGS.with_own(["subnet-a1"], "sg-cluster"), **untagged)
    ] == [
        "SubnetNotAllowed",
        "SecurityGroupNotAllowed",
    ]


RESERVATIONS = (
    {"CapacityReservationId": "cr-1", "InstanceType": "m5.large", "AvailabilityZone": "us-east-1a"},
    {
        "CapacityReservationId": "cr-2",
        "InstanceType": "m5.large",
        "AvailabilityZone": "us-east-1a",
        "Tags": [{"Key": "team", "Value": "ml"}],
    },
)
GROUP = {"GroupId": "pg-1", "GroupName": "trainers", "Strategy": "spread", "State": "available"}


def test_reservations_and_placement_groups_are_limited_only_where_the_settings_name_some() -> None:
    selecting = replace(
        MODERN,
        capacity_reservation_terms=(CapacityReservationTerm(id="cr-1"), CapacityReservationTerm({"team": "ml"})),
        placement_group=PlacementGroupTerm(name="trainers"),
    )
    answers: dict[str, Any] = {"reservations": RESERVATIONS, "placement_groups": (GROUP,)}
    narrow = CEILINGS.with_limits({"capacityReservations": {"tags": {"team": ["ml"]}}, "placementGroups": {}})
    chosen = replace(CEILINGS, reservations=narrow.reservations, placement_groups=narrow.placement_groups)

    assert refusals(selecting, **answers) == []
    assert refusals(selecting, chosen, **answers) == [
        (
            "ValidationSucceeded",
            "CapacityReservationNotAllowed",
            "spec.capacityReservationSelectorTerms: the settings do not allow the capacity reservation cr-1; they "
            "allow tag team = ml: tag it so, select others, or add it to nodeClasses.capacityReservations in "
            "clusters/NAME.yaml and deploy",
        ),
        (
            "PlacementGroupReady",
            "PlacementGroupNotAllowed",
            "spec.placementGroupSelector: the settings do not allow the placement group trainers; they allow none: "
            "name it, or a tag that it has, in nodeClasses.placementGroups in clusters/NAME.yaml and deploy",
        ),
    ]


def test_empty_settings_allow_nothing() -> None:
    bare = NodeClassPolicy(("r",), "p").with_limits({})

    assert [reason for _, reason, _ in refusals(TEMPLATE, bare)] == ["SubnetNotAllowed", "SecurityGroupNotAllowed"]
