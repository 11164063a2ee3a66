"""The fake table of the tests of functions answers as the local AWS does, whatever requests are drawn."""

import itertools
from collections.abc import Iterator
from typing import Any, Final

import pytest
from botocore.exceptions import ClientError
from hypothesis import example, given
from hypothesis import strategies as st

from tests.law_settings import examples
from tests.local.running_aws import RunningAws
from tests.unit.functions.dynamodb_expressions import NotFaked
from tests.unit.functions.fake_dynamodb import FakeDynamoDb

pytestmark = pytest.mark.local

REQUESTS: Final = 8
NUMBERS: Final = st.integers(-3, 12).map(lambda number: {"N": str(number)})
TEXTS: Final = st.sampled_from(("", "a", "b")).map(lambda text: {"S": text})
SETS: Final = st.sets(st.sampled_from("abc"), min_size=1).map(lambda members: {"SS": sorted(members)})
LISTS: Final = st.lists(TEXTS, max_size=2).map(lambda members: {"L": members})
ANY: Final = st.one_of(NUMBERS, TEXTS, SETS, LISTS, st.booleans().map(lambda it: {"BOOL": it}))
KEYS: Final = st.sampled_from(("a", "b"))
NAMES: Final = st.sampled_from(("holder", "rings", "#state"))
UNTIL: Final = "leaseUntil"
"""An attribute that is always a number."""
ORDERED: Final = st.one_of(NUMBERS, TEXTS)
"""Values that have an order."""


class Drawn:
    """The expressions of one request, with the placeholders that they use."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.names: dict[str, str] = {}
        self.values: dict[str, Any] = {}

    def name(self) -> str:
        name = self.draw(NAMES)
        if name.startswith("#"):
            self.names[name] = name[1:]
        return name

    def value(self, kinds: st.SearchStrategy[Any] = ANY) -> str:
        placeholder = f":v{len(self.values)}"
        self.values[placeholder] = self.draw(kinds)
        return placeholder

    def condition(self, depth: int = 2) -> str:
        kind = self.draw(
            st.sampled_from(("exists", "missing", "equal", "above", "and", "or", "not")[: 4 + 3 * bool(depth)])
        )
        match kind:
            case "exists" | "missing":
                return f"attribute_{'not_' * (kind == 'missing')}exists({self.name()})"
            case "equal":
                return f"{self.name()} {self.draw(st.sampled_from(('=', '<>')))} {self.value()}"
            case "above":
                name = self.draw(st.sampled_from((UNTIL, "holder", "rings")))
                return f"{name} {self.draw(st.sampled_from(('<', '<=', '>', '>=')))} {self.value(ORDERED)}"
            case "not":
                return f"NOT ({self.condition(depth - 1)})"
        inner = [self.condition(depth - 1) for _ in range(2)]
        joined = f" {kind.upper()} ".join(inner)
        return f"({joined})" if self.draw(st.booleans()) else joined

    def update(self, *, conditional: bool) -> str:
        clauses: dict[str, list[str]] = {}
        if self.draw(st.booleans()):
            clause = self.draw(st.sampled_from(("SET", "ADD")))
            clauses[clause] = [f"{UNTIL} {'= ' * (clause == 'SET')}{self.value(NUMBERS)}"]
        for name in self.draw(st.sets(NAMES, min_size=1)):
            if name.startswith("#"):
                self.names[name] = name[1:]
            clause = self.draw(st.sampled_from(("SET", "SET", "SET", "REMOVE", "ADD", "DELETE")))
            match clause:
                case "SET":
                    change = f"{name} = {self.assigned(conditional)}"
                case "REMOVE":
                    change = name
                case _:
                    change = f"{name} {self.value(SETS if clause == 'DELETE' else st.one_of(NUMBERS, SETS))}"
            clauses.setdefault(clause, []).append(change)
        return " ".join(f"{clause} {', '.join(changes)}" for clause, changes in clauses.items())

    def assigned(self, conditional: bool) -> str:
        """Of conditional updates the local AWS adds up numbers before it checks the condition."""
        match self.draw(st.integers(0, 2 if conditional else 4)):
            case 0:
                return f"if_not_exists({self.name()}, {self.value()})"
            case 1:
                return f"if_not_exists({self.name()}, {self.value(NUMBERS)}) + {self.value(NUMBERS)}"
            case 2:
                return self.value()
            case 3:
                return f"{self.name()} - {self.value(NUMBERS)}"
        return self.name()

    def asked(self, **more: Any) -> dict[str, Any]:
        given = {"ExpressionAttributeNames": self.names, "ExpressionAttributeValues": self.values}
        return {**more, **{name: value for name, value in given.items() if value}}


@st.composite
def drawn_write(
    draw: st.DrawFn, *, kinds: tuple[str, ...] = ("Update", "Update", "Delete")
) -> tuple[str, dict[str, Any]]:
    """Return an action and its request, without its table."""
    kind, drawn = draw(st.sampled_from(kinds)), Drawn(draw)
    conditional = kind == "ConditionCheck" or draw(st.booleans())
    asked: dict[str, Any] = {}
    if kind == "Update":
        asked["UpdateExpression"] = drawn.update(conditional=conditional)
    if conditional:
        asked["ConditionExpression"] = drawn.condition()
    if kind != "Put":
        return kind, drawn.asked(Key=draw(KEYS), **asked)
    attributes = draw(st.dictionaries(st.sampled_from(("holder", "state")), ANY)) | {UNTIL: draw(NUMBERS)}
    return kind, drawn.asked(Item=draw(KEYS), attributes=attributes, **asked)


@st.composite
def drawn_request(draw: st.DrawFn) -> tuple[str, Any]:
    what = draw(st.sampled_from(("write", "write", "write", "transaction", "get", "batch", "query")))
    match what:
        case "write":
            kind, asked = draw(drawn_write())
            more = {"ReturnValues": draw(st.sampled_from(("NONE", "ALL_NEW", "ALL_OLD")))} if kind == "Update" else {}
            return kind, {**asked, **more}
        case "transaction":
            several = st.lists(drawn_write(kinds=("Update", "Put", "Delete", "ConditionCheck")), min_size=1, max_size=3)
            return what, draw(several)
        case "query":
            drawn = Drawn(draw)
            keep = drawn.condition().replace("#state", "holder") if draw(st.booleans()) else ""
            return what, (keep, drawn.values)
    return what, draw(KEYS)


class Session:
    """The requests of one example, sent to one table; its items are in a partition of its own."""

    def __init__(self, client: Any, table: str, partition: str) -> None:
        self.client, self.table, self.partition = client, table, partition

    def key(self, item_id: str) -> dict[str, Any]:
        return {"kind": {"S": self.partition}, "id": {"S": item_id}}

    def answer(self, what: str, asked: Any) -> Any:
        """Return what the caller sees: the answer, or the code of the error with the codes of its reasons."""
        try:
            return _comparable(self._send(what, asked))
        except ClientError as reason:
            causes = [each["Code"] for each in reason.response.get("CancellationReasons", ())]
            return reason.response["Error"]["Code"], causes

    def _send(self, what: str, asked: Any) -> Any:
        match what:
            case "Update":
                return self.client.update_item(**self._request(asked)).get("Attributes")
            case "Delete":
                return self.client.delete_item(**self._request(asked)).get("Attributes")
            case "transaction":
                actions = [{kind: self._request(each)} for kind, each in asked]
                return self.client.transact_write_items(TransactItems=actions).get("Attributes")
            case "get":
                return self.client.get_item(TableName=self.table, Key=self.key(asked), ConsistentRead=True).get("Item")
            case "batch":
                keys = [self.key(each) for each in {asked, "a", "c"}]
                answer = self.client.batch_get_item(RequestItems={self.table: {"Keys": keys, "ConsistentRead": True}})
                return sorted(answer["Responses"][self.table], key=str), answer["UnprocessedKeys"]
        keep, values = asked
        return self.client.query(
            TableName=self.table,
            KeyConditionExpression="kind = :kind",
            ExpressionAttributeValues={":kind": {"S": self.partition}, **values},
            ConsistentRead=True,
            **({"FilterExpression": keep} if keep else {}),
        )["Items"]

    def _request(self, asked: dict[str, Any]) -> dict[str, Any]:
        request = {"TableName": self.table, **asked}
        if "Item" in request:
            attributes = request.pop("attributes")
            return {**request, "Item": {**self.key(request["Item"]), **attributes}}
        return {**request, "Key": self.key(request["Key"])}


def _comparable(answer: Any) -> Any:
    """Sets have no order, and partitions differ."""
    match answer:
        case {"SS": members}:
            return {"SS": sorted(members)}
        case dict():
            return {name: _comparable(value) for name, value in answer.items()}
        case list() | tuple():
            return [_comparable(each) for each in answer]
    return answer


@pytest.fixture(scope="module")
def sessions(local_aws: RunningAws) -> Iterator[tuple[Session, Session]]:
    client, table = local_aws.client("dynamodb"), local_aws.table("drawn")
    fake = FakeDynamoDb("drawn")
    return ((Session(client, table, name), Session(fake, "drawn", name)) for name in map(str, itertools.count()))


def update(key: str, expression: str, **values: Any) -> tuple[str, dict[str, Any]]:
    given = {f":{name}": value for name, value in values.items()}
    asked = {"Key": key, "UpdateExpression": expression, "ExpressionAttributeValues": given}
    return "Update", {**asked, "ReturnValues": "NONE"}


SET_AND_EMPTIED: Final = [
    update("a", "ADD holder :v", v={"SS": ["a"]}),
    update("a", "DELETE holder :v SET rings = if_not_exists(holder, :n)", v={"SS": ["a"]}, n={"N": "0"}),
]
"""A set that one clause takes from an attribute, which another clause empties."""
SET_TWICE_AND_ADDED: Final = [
    update("a", "ADD holder :v", v={"SS": ["a"]}),
    update("a", "SET rings = if_not_exists(holder, :v)", v={"SS": ["b"]}),
    update("a", "ADD rings :v", v={"SS": ["c"]}),
]
"""Two attributes with one value, of which one changes later."""


@examples(20)
@given(requests=st.lists(drawn_request(), min_size=REQUESTS, max_size=REQUESTS))
@example(requests=SET_AND_EMPTIED)
@example(requests=SET_TWICE_AND_ADDED)
def test_drawn_requests_get_the_answers_of_the_local_aws(
    sessions: Iterator[tuple[Session, Session]], requests: list[tuple[str, Any]]
) -> None:
    real, fake = next(sessions)

    for what, asked in [*requests, ("query", ("", {}))]:
        assert fake.answer(what, asked) == real.answer(what, asked), (what, asked)


KNOWN: Final = "SET holder = :a"


@pytest.mark.parametrize(
    ("update", "condition", "more"),
    [
        ("SET state = :a", "", {}),
        ("SET #absent = :a", "", {}),
        ("SET holder = :absent", "", {}),
        (KNOWN, "holder", {}),
        (KNOWN, "holder = :a AND", {}),
        (KNOWN, "", {"ExpressionAttributeNames": {"#unused": "rings"}}),
        (f"{KNOWN} SET rings = :a", "", {}),
        (f"{KNOWN}, holder = :a", "", {}),
        (KNOWN, "((holder = :a))", {}),
        (f"{KNOWN} ADD id :a", "", {}),
        ("ADD rings :a", "", {}),
        ("DELETE rings :a", "", {}),
    ],
)
def test_requests_that_neither_table_accepts(
    sessions: Iterator[tuple[Session, Session]], update: str, condition: str, more: dict[str, Any]
) -> None:
    asked = {"Key": "a", "UpdateExpression": update, "ExpressionAttributeValues": {":a": {"S": "a"}}, **more}
    if condition:
        asked["ConditionExpression"] = condition
    real, fake = next(sessions)

    assert fake.answer("Update", asked) == ("ValidationException", [])
    assert real.answer("Update", asked) == ("ValidationException", [])


@pytest.mark.parametrize(
    ("update", "condition"),
    [
        ("SET holder.name = :a", ""),
        ("SET holder[0] = :a", ""),
        ("SET holder = list_append(rings, :a)", ""),
        (KNOWN, "begins_with(holder, :a)"),
        (KNOWN, "size(holder) > :a"),
        (KNOWN, "holder BETWEEN :a AND :a"),
    ],
)
def test_what_the_fake_does_not_know_is_an_error_that_no_function_catches(update: str, condition: str) -> None:
    fake = Session(FakeDynamoDb("drawn"), "drawn", "0")
    asked = {"Key": "a", "UpdateExpression": update, "ExpressionAttributeValues": {":a": {"S": "a"}}}

    with pytest.raises(NotFaked):
        fake.answer("Update", {**asked, "ConditionExpression": condition} if condition else asked)
