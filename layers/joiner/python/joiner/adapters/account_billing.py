"""What the account pays for in advance: its reserved instances and savings plans, and the instances that may use them.

Only what applies to nodes is read: commitments that are active, for Linux on shared hardware, in this region. Sources:
EC2 API reference, ReservedInstances; Savings Plans API reference, SavingsPlan and SavingsPlanRate.

* A reserved instance or a savings plan that is queued or whose payment is pending applies to nothing yet.
* The offering class (standard or convertible) makes no difference to how reserved instances are applied.
* Both APIs show what this account owns. What other accounts of an organization share with it, they do not show.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from joiner.adapters.ec2_client import Ec2
from joiner.adapters.ec2_errors import translate_errors
from joiner.adapters.instance_prices import LINUX
from joiner.adapters.replaced_documents import read_replaced_document
from joiner.adapters.store import Store
from joiner.catalogue.commitments import Machine
from joiner.catalogue.reserved_instances_and_savings_plans import (
    NOTHING_OWNED,
    AccountCommitments,
    ReservedInstances,
    SavingsPlan,
)
from joiner.names import cluster_tag
from joiner.pools.timestamps import parse_timestamp

DOCUMENT: Final = "catalogue/account-commitments.json.gz"
ACTIVE: Final = "active"
PLAN_FAMILIES: Final = {"Compute": False, "EC2Instance": True}
"""The types of savings plans that apply to instances, and whether they have one family."""
RATE_FILTERS: Final = {
    "productType": "EC2",
    "serviceCode": "AmazonEC2",
    "tenancy": "shared",
    "operation": "RunInstances",
}
"""Filters of rates. The operation of Linux is RunInstances, without a number of another operating system."""
EKS_CLUSTER_TAGS: Final = ("eks:cluster-name", "eks:eks-cluster-name", "aws:eks:cluster-name")


def read_reserved_instances(client: Any) -> tuple[ReservedInstances, ...]:
    """Return the active reserved instances for Linux on shared hardware. The call has no pages."""
    with translate_errors():
        answer = client.describe_reserved_instances(Filters=[{"Name": "state", "Values": [ACTIVE]}])
    return tuple(
        ReservedInstances(
            str(one["InstanceType"]),
            int(one["InstanceCount"]),
            str(one.get("AvailabilityZone") or "") if one.get("Scope") != "Region" else "",
            int(one["End"].timestamp()),
        )
        for one in answer["ReservedInstances"]
        if one["State"] == ACTIVE
        and one["ProductDescription"] in LINUX
        and one.get("InstanceTenancy", "default") == "default"
    )


def read_savings_plans(client: Any, region: str) -> tuple[SavingsPlan, ...]:
    """Return the active savings plans that apply to instances of the region, with their rates for Linux."""
    with translate_errors():
        plans = list(_pages(client.describe_savings_plans, "savingsPlans", states=[ACTIVE]))
        applying = [one for one in plans if one["state"] == ACTIVE and _applies(one, region)]
        return tuple(
            SavingsPlan(
                str(one["savingsPlanId"]),
                float(one["commitment"]),
                family=str(one.get("ec2InstanceFamily") or ""),
                rates=_rates(client, str(one["savingsPlanId"]), region),
                until=_epoch(str(one["end"])),
            )
            for one in applying
        )


def _applies(plan: Mapping[str, Any], region: str) -> bool:
    in_family = PLAN_FAMILIES.get(str(plan["savingsPlanType"]))
    return in_family is not None and (not in_family or plan.get("region") == region)


def _rates(client: Any, plan: str, region: str) -> dict[str, float]:
    filters = [{"name": name, "values": [value]} for name, value in {**RATE_FILTERS, "region": region}.items()]
    filters.append({"name": "productDescription", "values": list(LINUX)})
    found: dict[str, float] = {}
    for rate in _pages(client.describe_savings_plan_rates, "searchResults", savingsPlanId=plan, filters=filters):
        facts = {each["name"]: each["value"] for each in rate.get("properties", ())}
        # Unused reserved capacity (UnusedBox) and dedicated hardware (DedicatedUsage) have rates of their own.
        if rate["unit"] == "Hrs" and "BoxUsage" in rate["usageType"] and facts.get("region", region) == region:
            found[facts["instanceType"]] = float(rate["rate"])
    return found


def _pages(call: Any, result: str, **asked: Any) -> Iterator[Mapping[str, Any]]:
    """Yield all results of a call of Savings Plans, for which botocore has no paginator."""
    following: dict[str, str] = {}
    while True:
        answer = call(**asked, **following)
        yield from answer[result]
        if not answer.get("nextToken"):
            return
        following = {"nextToken": answer["nextToken"]}


def _epoch(text: str) -> int:
    moment = parse_timestamp(text)
    return int(moment.timestamp()) if moment is not None else 0


def read_instances_elsewhere(ec2: Ec2, cluster: str) -> tuple[Machine, ...]:
    """Return the on-demand instances of the region that commitments apply to and that are not of the cluster.

    Instances of other operating systems are left out: a savings plan applies to the highest saving first, and a licence
    lowers the saving.
    """
    filters = [{"Name": "instance-state-name", "Values": ["pending", "running"]}]
    reservations = ec2.pages("describe_instances", "Reservations", Filters=filters)
    return tuple(
        Machine(str(one["InstanceId"]), str(one["InstanceType"]), str(one["Placement"]["AvailabilityZone"]))
        for each in reservations
        for one in each["Instances"]
        if _may_use_commitments(one) and not _is_of(cluster, one)
    )


def _may_use_commitments(instance: Mapping[str, Any]) -> bool:
    return (
        not instance.get("InstanceLifecycle")
        and instance.get("PlatformDetails", LINUX[0]) in LINUX
        and instance["Placement"].get("Tenancy", "default") == "default"
    )


def _is_of(cluster: str, instance: Mapping[str, Any]) -> bool:
    tags = {str(each["Key"]): str(each["Value"]) for each in instance.get("Tags", ())}
    return cluster_tag(cluster) in tags or any(tags.get(key) == cluster for key in EKS_CLUSTER_TAGS)


def put_account_commitments(store: Store, found: AccountCommitments) -> None:
    """Store what was read, for refreshes that cannot read it."""
    store.put(DOCUMENT, found)


def get_account_commitments(store: Store) -> AccountCommitments:
    """Return what was stored last. A document that is missing or cannot be read counts as empty; the next refresh
    replaces it.
    """
    what = "the stored commitments of the account"
    return read_replaced_document(store, DOCUMENT, _read_stored, NOTHING_OWNED, what=what)


def _read_stored(stored: Any) -> AccountCommitments:
    return msgspec.convert(stored, AccountCommitments)
