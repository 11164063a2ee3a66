"""Lifecycle: the next state of a claim and its node, and which pods to bind to it. Pure: the functions read and write.

A claim is launched, then registered (its Node joined), then initialized (its Node is ready for pods). Until then the
node is *filling*: it is closed to the scheduler, so that the pods it was planned for get its resources. May use
`cluster` and `pools`.
"""
