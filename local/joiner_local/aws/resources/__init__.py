"""The CloudFormation resource types that the local AWS knows, a module a service, and nothing else. What is not here fails a deployment."""

from joiner_local.aws.resource_types import ResourceType
from joiner_local.aws.resources import (
    access_entries,
    buckets,
    event_rules,
    functions,
    http_apis,
    observation,
    parameters,
    permissions,
    queues,
    schedules,
    security_groups,
    state_machines,
    tables,
)

TYPES: tuple[ResourceType, ...] = (
    *access_entries.TYPES,
    *buckets.TYPES,
    *event_rules.TYPES,
    *functions.TYPES,
    *http_apis.TYPES,
    *observation.TYPES,
    *parameters.TYPES,
    *permissions.TYPES,
    *queues.TYPES,
    *schedules.TYPES,
    *security_groups.TYPES,
    *state_machines.TYPES,
    *tables.TYPES,
)
