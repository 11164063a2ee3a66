"""The calls of DynamoDB that a method of the ledger classes makes, read from its source."""

import ast
from collections.abc import Iterator, Mapping
from functools import cache

from tests.infra.conftest import ROOT

ACTIONS = {
    # What a configuration writes about items, and what its role may do with them
    "gets_items": {"dynamodb:GetItem"},
    "gets_items_in_batches": {"dynamodb:BatchGetItem"},
    "queries_items": {"dynamodb:Query"},
    "updates_items": {"dynamodb:UpdateItem"},
    "puts_items": {"dynamodb:PutItem"},
    "checks_items": {"dynamodb:ConditionCheckItem"},
    "deletes_items": {"dynamodb:DeleteItem"},
}


READS = ("gets_items", "gets_items_in_batches", "queries_items")


CALLS = {
    "batch_get_item": "BatchGetItem",
    "delete_item": "DeleteItem",
    "get_item": "GetItem",
    "put_item": "PutItem",
    "query": "Query",
    "update_item": "UpdateItem",
}


OF_A_TRANSACTION = {
    "ConditionCheck": "ConditionCheckItem",
    "Delete": "DeleteItem",
    "Put": "PutItem",
    "Update": "UpdateItem",
}


@cache
def _classes() -> Mapping[str, ast.ClassDef]:
    trees = (ast.parse(path.read_text()) for path in (ROOT / "layers/joiner/python/joiner/adapters").glob("*.py"))
    return {each.name: each for tree in trees for each in tree.body if isinstance(each, ast.ClassDef)}


@cache
def _methods(name: str) -> Mapping[str, ast.FunctionDef]:
    """Return the methods of a class, with inherited ones."""
    found = _classes()[name]
    bases = [each.id for each in found.bases if isinstance(each, ast.Name) and each.id in _classes()]
    inherited = {method: tree for base in bases for method, tree in _methods(base).items()}
    return {**inherited, **{each.name: each for each in found.body if isinstance(each, ast.FunctionDef)}}


@cache
def called_actions(name: str, method: str) -> frozenset[str]:
    """Return the IAM actions that a method of a class requires, directly or through other methods of its class."""
    return frozenset(f"dynamodb:{each}" for each in _called(name, method, ()))


def _called(name: str, method: str, callers: tuple[str, ...]) -> Iterator[str]:
    tree = _methods(name).get(method)
    if tree is None or method in callers:
        return
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute):
            continue
        if isinstance(node.value, ast.Attribute) and node.value.attr == "_client":
            yield from _of_a_transaction(tree) if node.attr == "transact_write_items" else [CALLS[node.attr]]
        elif isinstance(node.value, ast.Name) and node.value.id == "self":
            yield from _called(name, node.attr, (*callers, method))


def _of_a_transaction(tree: ast.FunctionDef) -> list[str]:
    keys = [each for node in ast.walk(tree) if isinstance(node, ast.Dict) for each in node.keys]
    return [
        OF_A_TRANSACTION[each.value]
        for each in keys
        if isinstance(each, ast.Constant) and each.value in OF_A_TRANSACTION
    ]
