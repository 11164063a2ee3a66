"""Step Functions, executed: the JSONata dialect of the Amazon States Language, in threads of this process.

An interpreter of our own, because moto's parses every machine anew for each execution, lets the JSONata engine out, and goes on after
StopExecution. Modules: `expressions` (JSONata), `definition` (a machine as a value, and what AWS refuses at creation), `history` (events),
`waiting` (promises, task tokens), `tasks` (service integrations), `execution` (the interpreter), `machines` (what the API acts on).
Only `tasks` knows other services. Reference: https://states-language.net and the Step Functions Developer Guide.
"""
