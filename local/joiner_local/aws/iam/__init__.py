"""IAM of the local AWS: the policies of a role decide the calls of functions, state machines, rules and schedules, as
on AWS."""
