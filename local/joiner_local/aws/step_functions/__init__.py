"""Step Functions: run the JSONata dialect of the Amazon States Language in threads of this process.

The interpreter is our own, because moto's parses a machine again for each execution, fails with errors of its JSONata
engine, and continues after StopExecution. From the lowest layer: `jsonata_expressions`, `task_tokens` (promises and
task tokens), `execution_history` (events), `task_resources` and `task_calls` (what a Task calls, and the call),
`running_tasks` (its timeouts and events), `machine_definition` (a machine as a value, and what is refused at creation),
`state_runs` (what a state's expressions see), `state_interpreter`, `machine_execution` (its thread), `state_machines`
(what the API acts on), `machine_descriptions`, `execution_logs`, `task_services`, `step_functions_api`. Only
`task_calls` calls other services.
Reference: https://states-language.net and the Step Functions Developer Guide.
"""
