"""Groups of nodes by their names, so that the API server compares a binding with few nodes.

An admission policy cannot read the node of a binding; it compares the binding with every node that it selects, which
takes 0.2 ms a node. So each of our nodes has its shard as a label, each binding has that of its node, and the policy
selects the nodes of this shard. The policy computes the shard by the same rule (manifests/policies/bindings.yaml).
"""

from typing import Final

OTHER: Final = "x"
"""The shard of names that end in no digit."""


def shard_of(node_name: str) -> str:
    """Return the last digit of the first part of a node's name: names of EC2 contain the IP address or the id.

    >>> shard_of("ip-10-0-12-34.ec2.internal"), shard_of("i-0123456789abcdef0"), shard_of("worker-a.example")
    ('4', '0', 'x')
    """
    last = node_name.partition(".")[0][-1:]
    return last if last and last in "0123456789" else OTHER
