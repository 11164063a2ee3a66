"""Step Functions, executed: the JSONata dialect of the Amazon States Language, in threads of this process.

An interpreter of our own, because moto's parses every machine anew for each execution, lets the JSONata engine out, and goes on after
StopExecution. From the ground up: `expressions` (JSONata), `waiting` (promises, task tokens), `history` (events), `resources` and `tasks`
(what a Task calls, and the call), `running_tasks` (its timeouts and events), `definition` (a machine as a value, and what is refused at
creation), `visits` (what a state's expressions see), `execution` (the interpreter), `machines` (what the API acts on). Only `tasks` knows
other services. Reference: https://states-language.net and the Step Functions Developer Guide.
"""
