"""A class that finds no image says which field names it, and what it names."""

from dataclasses import replace

import pytest

from joiner.pools import ImageTerm
from tests.unit.launching.launch_scenario import TEMPLATE, resolved


@pytest.mark.parametrize(
    ("term", "wanted"),
    [
        (ImageTerm(id="ami-0123456789abcdef0"), "image-id ami-0123456789abcdef0"),
        (ImageTerm(name="golden-*", tags={"team": "web"}), "name golden-* and tag team = web"),
        (ImageTerm(tags={"team": "*"}, owner="self"), "any tag team and the owner self"),
        (ImageTerm(ssm_parameter="/aws/service/x"), "the id of the parameter /aws/service/x"),
    ],
)
def test_a_missing_image_is_reported_with_the_field_and_what_it_names(term: ImageTerm, wanted: str) -> None:
    named = replace(TEMPLATE, kind="EC2NodeClass", image_terms=(ImageTerm(id="ami-2"), term))

    there = resolved(named, images=())

    (found,) = [problem for problem in there.problems if problem.reason == "AMIsNotFound"]
    assert found.message == (
        f"spec.amiSelectorTerms: no image has image-id ami-2; or {wanted} among images of amazon, self (the settings' "
        "imageOwners): select one that exists in this region, or have its owner allowed"
    )
    assert found.field == "spec.amiSelectorTerms"
