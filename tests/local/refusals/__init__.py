"""What AWS refuses beyond the schema of its API: a table with one test a row.

`table` defines a row. The rows are in one module for each service. `calls` lists every call that our functions, state
machines and template make; each has a row here or an explicit statement that no refusal is known. EC2's launch calls,
volumes and keys, and IAM's policies have test files beside this folder; `calls` names them.
"""
