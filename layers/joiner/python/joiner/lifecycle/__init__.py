"""Lifecycle: what a claim and its node should look like next, and which pods to place on it. Pure: the functions read and write.

A claim is launched, then registered (its Node joined), then initialized (its Node may take pods); until then the node is *filling*: closed
to the scheduler, so that the pods it was planned for find their room. May use `cluster` and `pools`.
"""
