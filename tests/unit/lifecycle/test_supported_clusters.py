"""Which authentication modes fit the settings, and what the egress mode of a control plane means for the doorbell."""

import pytest

from joiner.lifecycle.supported_clusters import describe_egress, find_mode_conflict


@pytest.mark.parametrize(
    ("mode", "setting"),
    [
        ("API", "API"),
        ("API_AND_CONFIG_MAP", "API"),
        ("API_AND_CONFIG_MAP", "CONFIG_MAP"),
        ("CONFIG_MAP", "CONFIG_MAP"),
    ],
)
def test_a_cluster_that_reads_the_roles_where_they_are_written_is_accepted(mode: str, setting: str) -> None:
    assert find_mode_conflict("prod", mode, setting) == ""


def test_a_cluster_that_does_not_read_the_roles_is_refused_with_the_remedy() -> None:
    assert find_mode_conflict("prod", "CONFIG_MAP", "API") == (
        "prod: its authentication mode is CONFIG_MAP, and the settings' authenticationMode is API: write "
        "authenticationMode: CONFIG_MAP (docs/settings.md, Clusters with aws-auth), or change the cluster: aws eks "
        "update-cluster-config --name prod --access-config authenticationMode=API_AND_CONFIG_MAP"
    )
    assert find_mode_conflict("prod", "API", "CONFIG_MAP") == (
        "prod: its authentication mode is API, which does not read aws-auth: write authenticationMode: API"
    )


def test_an_egress_mode_is_explained_and_an_unknown_one_is_named() -> None:
    for mode in ("AWS_MANAGED", "CUSTOMER_ROUTED", "CUSTOMER_ISOLATED"):
        assert describe_egress(mode).startswith(f"{mode}: ")
        assert "not known" not in describe_egress(mode)
    assert describe_egress("NEW") == "NEW: this mode is not known: see that the control plane reaches the doorbell"
