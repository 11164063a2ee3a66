"""What AWS refuses beyond the schema of its API: a table with one row a refusal, and one test a row.

`table` says what a row is. The rows are in one module for each service. `calls` lists every call that our functions,
state machines and template make; each has a row here or an explicit statement that nothing is known. EC2's launch
calls, volumes and keys, and IAM's policies have test files of their own beside this folder; `calls` names them.
"""
