"""Reads the requirements, labels and taints of a pool: which keys a user may name, with which operators and values.

Source: Karpenter, "NodePools", spec.template.spec.requirements; Kubernetes, "Labels and Selectors" (syntax).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from joiner import names
from joiner.cluster import Requirements, Taint
from joiner.cluster.label_values import parse_integer
from joiner.cluster.requirements import OPERATORS, RENAMED
from joiner.cluster.taints import TAINT_EFFECTS
from joiner.pools.codecs.manifest_fields import ManifestFields, ManifestProblems
from joiner.pools.label_rules import NAME, PREFIX, VALUE, is_well_known, key_fault
from joiner.pools.suggestions import refuse_value

LEGACY_OPERATORS = OPERATORS[:6]
KNOWN_VALUES: Mapping[str, tuple[str, ...]] = {
    names.CAPACITY_TYPE: names.CAPACITY_TYPES,
    names.TENANCY: names.TENANCIES,
}


def read_pool_labels(fields: ManifestFields, name: str, *, legacy: bool) -> dict[str, str]:
    """Read the labels for the pool's nodes."""
    labels = fields.texts(name)
    for key, value in labels.items():
        if key.strip() == key and (remedy := key_fault(key, legacy=legacy)):
            fields.notes.note(f"{fields.at(name)}[{key}]", value, remedy)
        elif not VALUE.fullmatch(value):
            remedy = "a label value has up to 63 letters, digits, - _ . and begins and ends with a letter or digit"
            fields.notes.note(f"{fields.at(name)}[{key}]", value, remedy)
    return labels


def read_requirements(fields: ManifestFields, name: str, *, legacy: bool) -> list[dict[str, Any]]:
    """Return the valid requirements as Kubernetes expressions; note the others."""
    good: list[dict[str, Any]] = []
    for item in fields.many(name):
        before = len(fields.notes.errors)
        key, operator, values = (
            item.text("key"),
            item.text("operator", one_of=LEGACY_OPERATORS if legacy else OPERATORS),
            _values(item),
        )
        minimum = None if legacy else item.integer("minValues", minimum=1, maximum=50)
        item.close()
        if "key" not in item:
            item.wrong("key", "it is missing: write a label, such as kubernetes.io/arch")
        if "operator" not in item:
            item.wrong("operator", f"it is missing: {refuse_value('', LEGACY_OPERATORS if legacy else OPERATORS)}")
        if key is not None and (remedy := key_fault(key, legacy=legacy)):
            item.wrong("key", remedy)
        if key is not None and operator is not None:
            _check_values(item, key, operator, values)
        if minimum is not None and operator == "In" and minimum > len(values):
            item.wrong("minValues", _too_few(len(values)))
        elif minimum is not None and (known := KNOWN_VALUES.get(key or "")) and minimum > len(known):
            item.wrong("minValues", f"the label has only the values {', '.join(known)}")
        if len(fields.notes.errors) == before:
            least = {"minValues": minimum} if minimum is not None else {}
            good.append({"key": key, "operator": operator} | ({"values": values} if values else {}) | least)
    return good


def _too_few(number: int) -> str:
    """Return that there are fewer values than the minimum.

    >>> _too_few(1), _too_few(2)
    ('there is only 1 value to choose from', 'there are only 2 values to choose from')
    """
    return f"there {'is' if number == 1 else 'are'} only {number} {'value' if number == 1 else 'values'} to choose from"


def read_min_values(requirements: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return minValues by key; the largest if several requirements have one for the key.

    Every instance type has both tenancies, as in Karpenter, so minValues of the tenancy is always met.

    >>> read_min_values([{"key": "a", "minValues": 2}, {"key": "a", "minValues": 3}, {"key": "b"}])
    {'a': 3}
    """
    found: dict[str, int] = {}
    for one in requirements:
        if one.get("minValues") is not None and one["key"] != names.TENANCY:
            key = RENAMED.get(one["key"], one["key"])
            found[key] = max(found.get(key, 0), one["minValues"])
    return found


def _values(item: ManifestFields) -> list[str]:
    values = item.raw("values")
    if values is None:
        return []
    if not isinstance(values, Sequence) or isinstance(values, str):
        item.wrong("values", 'give a list, such as ["a", "b"]')
        return []
    for index, value in enumerate(values):
        if not isinstance(value, str):
            item.notes.note(f"{item.at('values')}[{index}]", value, f'put it in quotes: "{value}"')
        elif not VALUE.fullmatch(value):
            remedy = (
                "remove the blank at its beginning or end" if value.strip() != value else "no label can have this value"
            )
            item.notes.note(f"{item.at('values')}[{index}]", value, remedy)
    return [value for value in values if isinstance(value, str)]


def _check_values(item: ManifestFields, key: str, operator: str, values: list[str]) -> None:
    if operator == "In" and not values:
        item.wrong("values", "the operator In needs at least one value")
    if operator in ("Exists", "DoesNotExist") and values:
        item.wrong("values", f"the operator {operator} takes no values; remove them")
    if operator in ("Gt", "Lt", "Gte", "Lte") and not (
        len(values) == 1 and values[0].isdecimal() and parse_integer(values[0]) is not None
    ):
        item.wrong("values", f'the operator {operator} needs exactly one whole number in quotes, such as ["2"]')
    if operator == "In" and key in KNOWN_VALUES and values and not set(values) & set(KNOWN_VALUES[key]):
        item.wrong("values", f"none of the values is known; use {', '.join(KNOWN_VALUES[key])}")


def read_pool_taints(fields: ManifestFields, *lists: str) -> tuple[tuple[Taint, ...], ...]:
    """Return the taints of each list. No two taints of all lists may have the same key and effect."""
    found: list[tuple[Taint, ...]] = []
    seen: set[tuple[str, str]] = set()
    for name in lists:
        taints: list[Taint] = []
        for item in fields.many(name):
            key, value, effect = item.text("key"), item.text("value") or "", item.text("effect", one_of=TAINT_EFFECTS)
            item.raw("timeAdded")
            item.close()
            if "key" not in item:
                item.wrong("key", "it is missing: write a taint key, such as example.com/dedicated")
            if "effect" not in item:
                item.wrong("effect", f"it is missing: {refuse_value('', TAINT_EFFECTS)}")
            if key is None or effect is None:
                continue
            prefix, slash, own = key.rpartition("/")
            if not NAME.fullmatch(own) or (slash and not PREFIX.fullmatch(prefix)):
                item.wrong("key", "use a taint key: an optional DNS prefix and /, then up to 63 letters, digits, - _ .")
            elif not VALUE.fullmatch(value):
                item.wrong("value", "a taint value has up to 63 letters, digits, - _ .")
            elif (key, effect) in seen:
                item.wrong("key", f"several taints have {key}:{effect}; keep one of them")
            else:
                seen.add((key, effect))
                taints.append(Taint.from_kube({"key": key, "value": value, "effect": effect}))
        found.append(tuple(taints))
    return tuple(found)


def note_contradictions(expressions: Iterable[Mapping[str, Any]], notes: ManifestProblems, field: str) -> None:
    """Note the expressions on each key that exclude each other; others on the same key are not shown.

    >>> notes = ManifestProblems("NodePool/default")
    >>> cpu = [{"key": "cpu", "operator": "Gt", "values": ["8"]}, {"key": "cpu", "operator": "Lt", "values": ["4"]}]
    >>> note_contradictions([*cpu, {"key": "cpu", "operator": "Exists"}], notes, "spec.requirements")
    >>> print(notes.problems[0].message)
    spec.requirements[cpu] is Gt [8] and Lt [4]: they exclude each other: change or remove one
    """
    declared = list(expressions)
    for key in Requirements.from_kube(declared).contradictions():
        excluding = [each for each in declared if RENAMED.get(each["key"], each["key"]) == key]
        for each in tuple(excluding):
            others = [other for other in excluding if other is not each]
            if Requirements.from_kube(others).contradictions():
                excluding = others
        names_of_key = {str(each["key"]) for each in excluding}
        shown = " and ".join(_show(each, named=len(names_of_key) > 1) for each in excluding)
        written = min(names_of_key)
        notes.note(f"{field}[{written}]", shown, "they exclude each other: change or remove one")


def _show(expression: Mapping[str, Any], *, named: bool) -> str:
    """Return an expression as text, with its key if it is ``named``."""
    values = f" [{', '.join(expression['values'])}]" if expression.get("values") else ""
    return f"{expression['key'] if named else ''} {expression['operator']}{values}".strip()


def require_labels(
    requirements: Requirements, labels: Mapping[str, str], notes: ManifestProblems, field: str
) -> Requirements:
    """Return the requirements together with the labels of the template that the instance decides, each of which is a
    requirement. Note each label in ``field`` that excludes a requirement, or another label.
    """
    whole = requirements
    for key, value in labels.items():
        own = Requirements.from_labels({key: value})
        both = whole & own
        if set(both.contradictions()) - set(whole.contradictions()):
            others = " and ".join(f"{name} {whole.on(name)}" for name in own)
            remedy = f"no node can have it, because the pool also requires {others}: change one of them"
            notes.note(f"{field}[{key}]", value, remedy)
        elif is_well_known(key):
            whole = both
    return whole


def split_labels(labels: Mapping[str, str]) -> dict[str, Any]:
    """Return the labels of a template as arguments of NodePool: those that only the pool decides, and the others.

    >>> split_labels({"team": "web", "kubernetes.io/arch": "arm64"})
    {'labels': {'team': 'web'}, 'instance_labels': {'kubernetes.io/arch': 'arm64'}}
    """
    return {
        "labels": {key: value for key, value in labels.items() if not is_well_known(key)},
        "instance_labels": {key: value for key, value in labels.items() if is_well_known(key)},
    }
