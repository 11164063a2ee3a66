"""Resolving a class: resources of EC2 become the parts of a node; a missing resource becomes a condition with its
remedy.
"""

from dataclasses import replace
from typing import Any

import pytest

from joiner.launching.node_class_queries import ImageQuery, build_queries, query_parameter_images
from joiner.launching.node_class_resolution import refuse_after_lookup, resolve_node_class
from joiner.pools import ImageTerm, NodeClass, NodeClassProblem, SecurityGroupTerm, SubnetTerm
from joiner.pools.node_pool import ClassKind
from tests.unit.launching.launch_scenario import CEILINGS, SUBNETS, TEMPLATE, VERSION, found, parameters, resolved

MODERN = replace(TEMPLATE, kind="EC2NodeClass", ami_family="AL2023", image_terms=(ImageTerm(alias="al2023@latest"),))


def errors(problems: tuple[NodeClassProblem, ...]) -> list[tuple[str, str]]:
    return [(problem.condition, problem.reason) for problem in problems if problem.severity == "error"]


def image(identifier: str, created: str, **more: Any) -> dict[str, Any]:
    return {"ImageId": identifier, "Architecture": "x86_64", "Name": identifier, "CreationDate": created, **more}


def test_scenario_cs_class_resolves() -> None:
    there = resolved()

    assert there.ready
    assert there.zones == {"us-east-1a", "us-east-1b", "us-east-1c"}
    assert [subnet.id for subnet in there.subnets] == ["subnet-a2", "subnet-b1", "subnet-c1", "subnet-a1"]
    assert [group.id for group in there.security_groups] == ["sg-1"]
    assert there.instance_profile == "prod-default-profile"
    assert [one.id for one in there.images] == [
        "ami-x86_64-standard",
        "ami-arm64-standard",
        "ami-x86_64-nvidia",
        "ami-arm64-nvidia",
        "ami-x86_64-neuron",
    ]


def with_addresses(free: dict[str, int | None]) -> list[dict[str, Any]]:
    """Return the subnets of the scenario with these numbers of free addresses; None is unknown."""
    counts = {each["SubnetId"]: free.get(str(each["SubnetId"]), each["AvailableIpAddressCount"]) for each in SUBNETS}
    return [{**each, "AvailableIpAddressCount": counts[each["SubnetId"]]} for each in SUBNETS]


def addresses(problems: tuple[NodeClassProblem, ...]) -> list[tuple[str, str]]:
    return [(each.severity, each.message) for each in problems if each.reason == "NoFreeAddresses"]


@pytest.mark.parametrize("free", [{"subnet-a2": 0}, {"subnet-a1": 0, "subnet-a2": None}, {"subnet-b1": 1}])
def test_a_zone_with_a_free_address_is_offered(free: dict[str, int | None]) -> None:
    there = resolved(subnets=with_addresses(free))

    assert there.zones == {"us-east-1a", "us-east-1b", "us-east-1c"}
    assert addresses(there.problems) == []


def test_a_zone_without_a_free_address_is_not_offered_and_is_reported() -> None:
    there = resolved(subnets=with_addresses({"subnet-a1": 0, "subnet-a2": 0, "subnet-c1": 0}))

    assert (there.ready, there.zones) == (True, frozenset({"us-east-1b"}))
    assert len(there.subnets) == 4
    assert addresses(there.problems) == [
        (
            "warning",
            "spec.subnetSelector: the subnets in us-east-1a, us-east-1c have no free address, so no node is launched "
            "there: use larger or more subnets, or release addresses",
        )
    ]


def test_a_class_without_a_free_address_stays_ready_so_that_its_empty_nodes_leave() -> None:
    there = resolved(subnets=with_addresses(dict.fromkeys(("subnet-a1", "subnet-a2", "subnet-b1", "subnet-c1"), 0)))

    assert (there.ready, there.zones) == (True, frozenset())
    assert addresses(there.problems) == [
        (
            "warning",
            "spec.subnetSelector: the subnets have no free address, so no node is launched: use larger or more "
            "subnets, or release addresses",
        )
    ]


def test_the_default_family_is_al2023_and_is_reported() -> None:
    there = resolved()

    assert there.ami_family == "AL2023"
    assert [(problem.reason, problem.severity) for problem in there.problems] == [
        ("FamilyAssumed", "info"),
        ("RoleAssumed", "info"),
    ]


def test_a_class_without_role_reports_the_default() -> None:
    modern = replace(TEMPLATE, kind="EC2NodeClass")
    default, named = resolved(modern), resolved(replace(modern, role="KarpenterNodeRole-prod"))

    [found] = [problem for problem in default.problems if problem.condition == "InstanceProfileReady"]
    assert (found.reason, found.severity, default.ready) == ("RoleAssumed", "info", True)
    assert found.message == (
        "role and instanceProfile are not set: nodes have KarpenterNodeRole-prod, the first role of the settings "
        "(nodeRoles.names)"
    )
    assert "InstanceProfileReady" not in {problem.condition for problem in named.problems}


@pytest.mark.parametrize(
    ("answers", "condition", "words"),
    [
        (
            {"subnets": ()},
            ("SubnetsReady", "SubnetsNotFound"),
            "no subnet has tag karpenter.sh/discovery = prod: tag the subnets",
        ),
        (
            {"security_groups": ()},
            ("SecurityGroupsReady", "SecurityGroupsNotFound"),
            "no security group has tag karpenter.sh/discovery = prod: tag the security groups",
        ),
        (
            {"parameters": {}},
            ("AMIsReady", "AMIsNotFound"),
            "AWS has no AL2023 image of this release for Kubernetes 1.36",
        ),
    ],
)
def test_a_missing_resource_is_reported_with_its_remedy(
    answers: dict[str, Any], condition: tuple[str, str], words: str
) -> None:
    there = resolved(**answers)

    assert not there.ready
    assert errors(there.problems) == [condition]
    assert words in there.problems[0].message


@pytest.mark.parametrize(
    ("count", "reported", "words"),
    [
        (5, [], ""),
        (6, [("SecurityGroupsReady", "TooManySecurityGroups", "warning")], "unless the quota of the account"),
        (16, [("SecurityGroupsReady", "TooManySecurityGroups", "warning")], "it selects 16 security groups (sg-01, "),
        (17, [("SecurityGroupsReady", "TooManySecurityGroups", "error")], "has at most 16: select fewer"),
    ],
)
def test_more_security_groups_than_an_interface_can_have_are_reported(
    count: int, reported: list[tuple[str, str, str]], words: str
) -> None:
    """The selector of a Provisioner's `provider` takes every group with the cluster's tag."""
    tags = [{"Key": "karpenter.sh/discovery", "Value": "prod"}]
    groups = [{"GroupId": f"sg-{number:02}", "GroupName": "nodes", "Tags": tags} for number in range(1, count + 1)]

    there = resolved(security_groups=groups)

    found = [one for one in there.problems if not one.reason.endswith("Assumed")]
    assert [(one.condition, one.reason, one.severity) for one in found] == reported
    assert there.ready == (count <= 16)
    assert all(words in one.message for one in found)


def test_all_missing_resources_are_reported_at_once() -> None:
    bare = resolved(replace(TEMPLATE, instance_profile="gone"), subnets=(), security_groups=(), parameters={})

    assert [condition for condition, _ in errors(bare.problems)] == [
        "SubnetsReady",
        "SecurityGroupsReady",
        "AMIsReady",
        "InstanceProfileReady",
    ]


@pytest.mark.parametrize(
    ("node_class", "profile", "reason"),
    [
        (replace(TEMPLATE, instance_profile="mine"), "mine", ""),
        (replace(TEMPLATE, instance_profile="admins"), "", "RoleNotAllowed"),
        (replace(TEMPLATE, instance_profile="empty"), "", "InstanceProfileEmpty"),
        (replace(TEMPLATE, instance_profile="gone"), "", "InstanceProfileNotFound"),
        (replace(MODERN, role="KarpenterNodeRole-prod"), "prod-default-profile", ""),
        (replace(MODERN, role="special"), "", "InstanceProfileMissing"),
        (replace(MODERN, role="admin"), "", "RoleNotAllowed"),
        (TEMPLATE, "prod-default-profile", ""),
    ],
)
def test_no_node_gets_a_role_that_the_settings_do_not_name(node_class: NodeClass, profile: str, reason: str) -> None:
    profiles = {"mine": ["special"], "admins": ["admin"], "empty": []}

    there = resolved(node_class, profile_roles=profiles)

    assert there.instance_profile == profile
    assert [found_reason for _, found_reason in errors(there.problems)] == ([reason] if reason else [])


def test_each_role_of_the_settings_has_its_own_instance_profile() -> None:
    ceilings = replace(CEILINGS, role_profiles=("prod-default-profile", "special-profile"))
    chosen = {
        role: resolve_node_class(
            replace(MODERN, role=role), found(), ceilings, cluster="prod", kubernetes_version=VERSION
        ).instance_profile
        for role in ("KarpenterNodeRole-prod", "special", "admin")
    }

    assert chosen == {"KarpenterNodeRole-prod": "prod-default-profile", "special": "special-profile", "admin": ""}


def test_the_settings_may_name_roles_by_arn() -> None:
    ceilings = replace(
        CEILINGS, node_roles=("arn:aws:iam::123456789012:role/nodes/KarpenterNodeRole-prod",), instance_profile="p"
    )

    assert (
        resolve_node_class(
            replace(MODERN, role="KarpenterNodeRole-prod"),
            found(),
            ceilings,
            cluster="prod",
            kubernetes_version=VERSION,
        ).instance_profile
        == "p"
    )


def test_a_class_without_an_instance_profile_reports_it() -> None:
    there = resolve_node_class(
        TEMPLATE, found(), replace(CEILINGS, instance_profile=""), cluster="prod", kubernetes_version=VERSION
    )

    assert errors(there.problems) == [("InstanceProfileReady", "InstanceProfileMissing")]


def test_a_release_is_pinned_by_its_alias() -> None:
    pinned = replace(MODERN, image_terms=(ImageTerm(alias="al2023@v20261104"),))

    assert sorted(build_queries(pinned, VERSION, cluster="prod").parameters)[0] == (
        "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/arm64/nvidia/"
        "amazon-eks-node-al2023-arm64-nvidia-1.36-v20261104/image_id"
    )
    assert resolved(pinned, parameters=parameters(pinned)).ready


def test_a_public_parameter_names_an_image() -> None:
    path = "/aws/service/bottlerocket/aws-k8s-1.36-fips/x86_64/latest/image_id"
    chosen = replace(MODERN, ami_family="Bottlerocket", image_terms=(ImageTerm(ssm_parameter=path),))

    asked = build_queries(chosen, VERSION, cluster="prod")
    there = resolved(chosen, parameters={path: "ami-fips"}, images=[image("ami-fips", "2026-11-01")])

    assert (asked.parameters, asked.images, asked.image_parameters) == ((), (), (path,))
    assert query_parameter_images(["ami-fips"], ("amazon",)) == (
        ImageQuery(({"Name": "image-id", "Values": ["ami-fips"]},), ("amazon",)),
    )
    assert errors(there.problems) == []
    assert [one.id for one in there.images] == ["ami-fips"]


def test_a_parameter_that_does_not_exist_is_reported_beside_the_images_of_other_terms() -> None:
    terms = (ImageTerm(ssm_parameter="/aws/service/none"), ImageTerm(tags={"team": "a"}))
    there = resolved(replace(MODERN, image_terms=terms), parameters={}, images=[image("ami-a", "2026-11-01")])

    (problem,) = [one for one in there.problems if one.reason == "ParameterNotFound"]
    assert (there.ready, problem.severity) == (True, "warning")
    assert "there is no parameter /aws/service/none: only the images of the other terms" in problem.message


def test_a_parameter_of_the_account_is_not_asked_for_and_named_with_its_field() -> None:
    """The role may not read it: SSM would refuse the lookup, and with it all parameters of the class."""
    public = "/aws/service/bottlerocket/aws-k8s-1.36/x86_64/latest/image_id"
    terms = (ImageTerm(ssm_parameter=public), ImageTerm(ssm_parameter="/no/such/parameter"))
    chosen = replace(MODERN, ami_family="Bottlerocket", image_terms=terms)

    asked = build_queries(chosen, VERSION, cluster="prod")
    there = resolved(chosen, parameters={public: "ami-a"}, images=[image("ami-a", "2026-11-01")])

    assert asked.image_parameters == (public,)
    (problem,) = [one for one in there.problems if one.severity == "error"]
    assert (there.ready, problem.condition, problem.reason) == (False, "AMIsReady", "TermNotSupported")
    assert problem.message == (
        "spec.amiSelectorTerms[1].ssmParameter: /no/such/parameter: only the public parameters of AWS, "
        "/aws/service/..., can be read, and no setting allows others: name the image by id, name or tags"
    )


def test_of_images_the_newest_is_tried_first_and_deprecated_ones_last() -> None:
    chosen = replace(TEMPLATE, ami_family="AL2023", image_terms=(ImageTerm(tags={"team": "a"}),))
    images = [
        image("ami-old", "2026-09-01"),
        image("ami-new", "2026-11-01"),
        image("ami-newest", "2026-11-20", DeprecationTime="2026-11-20T12:00:00.000Z"),
        image("ami-mac", "2026-11-21", Architecture="x86_64_mac"),
    ]

    there = resolved(chosen, images=images, asked_at="2026-11-21T00:00:00Z")

    assert [one.id for one in there.images] == ["ami-new", "ami-old", "ami-newest"]


INLINE = NodeClass("default", "Inline", instance_profile="mine")


def test_an_inline_provider_without_selectors_has_the_tag_of_its_cluster() -> None:
    asked = build_queries(INLINE, VERSION, cluster="prod")

    by_tag = ({"Name": "tag-key", "Values": ["kubernetes.io/cluster/prod"]},)
    assert (asked.subnets, asked.security_groups) == ((by_tag,), (by_tag,))


@pytest.mark.parametrize("kind", ["EC2NodeClass", "AWSNodeTemplate"])
def test_no_other_class_has_selectors_by_default(kind: ClassKind) -> None:
    asked = build_queries(replace(INLINE, kind=kind), VERSION, cluster="prod")

    assert (asked.subnets, asked.security_groups) == ((), ())


def test_an_inline_provider_names_the_tag_that_no_subnet_and_no_group_has() -> None:
    there = resolved(INLINE, subnets=(), security_groups=(), profile_roles={"mine": ["special"]})

    assert [problem.message for problem in there.problems if problem.severity == "error"] == [
        "spec.provider.subnetSelector: no subnet has any tag kubernetes.io/cluster/prod: tag the subnets that nodes "
        "may use, or change the selector",
        "spec.provider.securityGroupSelector: no security group has any tag kubernetes.io/cluster/prod: tag the "
        "security groups that nodes shall have, or change the selector",
    ]


def test_subnets_and_groups_selected_by_id_and_name_are_not_to_be_tagged() -> None:
    by_id = replace(
        TEMPLATE,
        subnet_terms=(SubnetTerm(id="subnet-9"),),
        security_group_terms=(SecurityGroupTerm(id="sg-9"), SecurityGroupTerm(name="db")),
    )

    there = resolved(by_id, subnets=(), security_groups=())

    assert [problem.message for problem in there.problems if problem.severity == "error"] == [
        "spec.subnetSelector: no subnet has subnet-id subnet-9: select one that exists in this region",
        "spec.securityGroupSelector: no security group has group-id sg-9; or group-name db: select one that exists in "
        "this region",
    ]


def test_queries_have_the_form_of_the_describe_calls() -> None:
    asked = build_queries(
        replace(
            TEMPLATE,
            subnet_terms=(SubnetTerm({"a": "b", "c": "*"}), SubnetTerm(id="subnet-1")),
            security_group_terms=(SecurityGroupTerm(name="nodes"), SecurityGroupTerm(id="sg-1")),
            image_terms=(ImageTerm(name="mine-*", tags={"x": "y"}), ImageTerm(id="ami-1", owner="")),
            ami_family="AL2023",
            instance_profile="p",
        ),
        VERSION,
        cluster="prod",
        image_owners=("self",),
    )

    assert asked.subnets == (
        ({"Name": "tag:a", "Values": ["b"]}, {"Name": "tag-key", "Values": ["c"]}),
        ({"Name": "subnet-id", "Values": ["subnet-1"]},),
    )
    assert asked.security_groups == (
        ({"Name": "group-name", "Values": ["nodes"]},),
        ({"Name": "group-id", "Values": ["sg-1"]},),
    )
    assert asked.images == (
        ImageQuery(({"Name": "name", "Values": ["mine-*"]}, {"Name": "tag:x", "Values": ["y"]}), ("self",)),
        ImageQuery(({"Name": "image-id", "Values": ["ami-1"]},), ("self",)),
    )
    assert (asked.parameters, asked.instance_profile) == ((), "p")


def test_a_class_whose_lookup_aws_refused_is_not_ready_and_gives_the_answer_with_a_remedy() -> None:
    node_class = NodeClass("default", generation=3)

    refused = refuse_after_lookup(node_class, "UnauthorizedOperation: no")

    assert (refused.name, refused.kind, refused.generation, refused.ready) == ("default", "EC2NodeClass", 3, False)
    assert [(each.condition, each.reason, each.message) for each in refused.problems] == [
        (
            "ValidationSucceeded",
            "LookupFailed",
            "UnauthorizedOperation: no: put the class right, or allow the role of resolve_node_classes what it lacks",
        )
    ]
