"""The functions of one state machine: a construct for each, and how the machine invokes it."""

from collections.abc import Iterable, Mapping

from constructs import Construct

from infra.lambda_function import FunctionDependencies, LambdaFunction
from infra.service_integrations import CalledFunction


def create_functions(
    scope: Construct,
    names: Iterable[str],
    *,
    dependencies: FunctionDependencies,
    environments: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[str, LambdaFunction]:
    """Create the functions, by name; `environments` gives variables of some of them."""
    found = environments or {}
    return {
        name: LambdaFunction(
            scope, construct_id(name), name=name, dependencies=dependencies, environment=found.get(name)
        )
        for name in names
    }


def called_functions(functions: Mapping[str, LambdaFunction]) -> dict[str, CalledFunction]:
    """Return functions as their state machine invokes them: a published version with its timeout."""
    return {
        name: CalledFunction(function.published.function_arn, function.configuration.timeout_seconds)
        for name, function in functions.items()
    }


def construct_id(function_name: str) -> str:
    """Return the construct id of a function.

    >>> construct_id("find_pending_pods")
    'FindPendingPods'
    """
    return "".join(word.capitalize() for word in function_name.split("_"))
