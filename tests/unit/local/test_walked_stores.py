"""The local AWS answers many requests at a time, so no loop may walk over a store of moto that other requests change:
it walks over a copy, `list(store.values())`.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import joiner_local

LOCAL_AWS = Path(joiner_local.__file__).parent / "aws"
STORE = re.compile(
    r"_backends\b|\bbackend\.|_backend\(\)|_iam\(|\bec2\(\)|\bRESERVATIONS\.|\b(GROUPS|OWNED|PLANS)\b"
    r"|\.(stacks|change_sets|routes)\b"
)
VIEWS = ("keys", "values", "items")


def walked_stores(source: str) -> Iterator[str]:
    """Yield each view of a store, or of a name that stands for one, that the source uses in any way but as the argument
    of `list`. Walks without a view (`for key in store`) are not found."""
    tree = ast.parse(source)
    aliases = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute)
        for target in node.targets
        if isinstance(target, ast.Name) and STORE.search(ast.unparse(node.value))
    }
    copied = {
        id(node.args[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "list" and node.args
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or id(node) in copied:
            continue
        store = ast.unparse(node.func.value)
        if node.func.attr in VIEWS and (store in aliases or STORE.search(store)) and not store.endswith(".copy()"):
            yield f"{node.lineno}: {store}.{node.func.attr}()"


def test_a_walk_over_a_store_of_moto_is_over_a_copy() -> None:
    found = [
        f"{path.relative_to(LOCAL_AWS)}:{view}"
        for path in sorted(LOCAL_AWS.rglob("*.py"))
        for view in walked_stores(path.read_text())
    ]

    assert found == []


def test_a_walk_without_a_copy_is_found() -> None:
    source = """
found = backend.subnets.values()
known = list(backend.subnets.values())
role = next(each for each in iam_backends["1"]["aws"].roles.values() if each.name)
kept = backend.reservations.copy().items()
profiles = iam_backends["1"]["aws"].instance_profiles
found = next(each for each in profiles.values() if each.name)
own = {"a": 1}.items()
"""

    assert list(walked_stores(source)) == [
        "2: backend.subnets.values()",
        "4: iam_backends['1']['aws'].roles.values()",
        "7: profiles.values()",
    ]
