"""The CDK app that deploys Joiner: one construct for each capability, and one stack that connects them.

`settings` defines what the file of a cluster may contain. `function_configuration` lists the size and the permissions
of every function, `asset_bundles` packs what is uploaded. A construct does not import other constructs of the stack:
`cluster_stack` passes what each needs, and grants every permission that spans two of them.
"""
