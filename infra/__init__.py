"""The CDK app: one construct a capability, and one stack in which they meet.

`settings` says what a cluster's file may hold, `duties` who may do what, `bundling` what is uploaded. A construct knows nothing of the
others: `cluster_stack` hands each what it needs and grants every permission.
"""
