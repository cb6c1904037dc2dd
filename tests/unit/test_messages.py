"""Messages between processes: what comes in is what was declared, or is refused by the name of its field."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Literal, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.messages import LEFT_OUT, Extensible, MessageError, Messages, decode, encode, plain, typed


class Point(NamedTuple):
    at_s: float
    size: int


class Status(IntEnum):
    DONE = 0
    FAILED = 3


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Order:
    path: Path
    kind: Literal["read", "write"]
    parts: tuple[Part, ...]
    points: list[Point]
    by_name: dict[str, Part]
    pair: tuple[int, float]
    status: Status
    rate: float | None
    whole: bool = True
    anything: object = None
    id: int = field(default=0, kw_only=True)


@dataclass(frozen=True, slots=True)
class Stop:
    id: int = 0


@dataclass(frozen=True, slots=True)
class Record(Extensible):
    class_: str
    parts: list[Part] = field(default_factory=list, metadata=LEFT_OUT)
    node: str | None = field(default=None, metadata=LEFT_OUT)
    count: int | None = None


ORDERS: Messages[Order | Stop] = Messages("do", {"order": Order, "stop": Stop})
PARTS = st.builds(Part, st.text(), st.none() | st.integers())
VALID = st.builds(
    Order,
    path=st.text("abc/", min_size=1).map(Path),
    kind=st.sampled_from(["read", "write"]),
    parts=st.lists(PARTS).map(tuple),
    points=st.lists(st.builds(Point, st.floats(0, 1e9), st.integers())),
    by_name=st.dictionaries(st.text(), PARTS),
    pair=st.tuples(st.integers(), st.floats(allow_nan=False)),
    status=st.sampled_from(Status),
    rate=st.none() | st.floats(allow_nan=False),
    whole=st.booleans(),
    anything=st.none() | st.lists(st.integers()) | st.dictionaries(st.text(), st.text()),
    id=st.integers(),
)
EXAMPLE = Order(
    Path("/data"), "read", (Part("a"),), [Point(1.5, 2)], {"b": Part("b", 3)}, (1, 2.0), Status.FAILED, 1.0
)


@given(VALID)
def test_a_message_comes_as_it_was_sent(message: Order) -> None:
    assert ORDERS.decode(ORDERS.encode(message)) == message
    assert decode(encode(message), Order) == message
    assert ORDERS.typed(ORDERS.plain(message)) == message
    assert json.loads(encode(message)) == plain(message)


def test_a_message_is_plain_json() -> None:
    assert json.loads(ORDERS.encode(EXAMPLE)) == {
        "do": "order",
        "path": "/data",
        "kind": "read",
        "parts": [{"name": "a", "size": None}],
        "points": [[1.5, 2]],
        "by_name": {"b": {"name": "b", "size": 3}},
        "pair": [1, 2.0],
        "status": 3,
        "rate": 1.0,
        "whole": True,
        "anything": None,
        "id": 0,
    }


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"path": 7}, "path: 7 is not a text"),
        ({"kind": "append"}, "kind: 'append' is none of 'read', 'write'"),
        ({"parts": [{"name": "a", "size": "x"}]}, "parts.size: 'x' is not a whole number"),
        ({"parts": {}}, "parts: it is no list"),
        ({"parts": [{}]}, "parts.name: it is missing"),
        ({"points": [[1.0]]}, "points: it is no list of 2"),
        ({"by_name": {"b": {"name": "b", "length": 1}}}, "by_name.b.length: it is not known"),
        ({"pair": [1, "2"]}, "pair: '2' is not a number"),
        ({"status": 4}, "status: 4 is none of 0, 3"),
        ({"whole": 1}, "whole: 1 is not true or false"),
        ({"id": True}, "id: True is not a whole number"),
        ({"id": 1.0}, "id: 1.0 is not a whole number"),
        ({"rate": "fast"}, "rate: 'fast' is not a number"),
        ({"more": 1}, "more: it is not known"),
        ({"do": "jump"}, "do: 'jump' is not known; there are order, stop"),
        ({"do": None}, "do: None is not known; there are order, stop"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, object], said: str) -> None:
    with pytest.raises(MessageError) as refused:
        ORDERS.typed(ORDERS.plain(EXAMPLE) | change)
    assert str(refused.value) == said


@given(
    st.recursive(
        st.none() | st.integers() | st.text(), lambda of: st.lists(of) | st.dictionaries(st.text(), of)
    )
)
def test_what_is_no_message_is_refused_and_breaks_nothing(data: object) -> None:
    with pytest.raises(MessageError):
        typed(data, Order)
    with pytest.raises(MessageError):
        ORDERS.decode(json.dumps(data))


@given(st.binary(max_size=50))
def test_what_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises(MessageError):
        ORDERS.decode(text)


def test_whole_numbers_are_numbers() -> None:
    assert typed({"name": "a"}, Part) == Part("a")
    assert typed([1, 2], tuple[float, float]) == (1, 2)


def test_what_was_not_declared_is_not_sent() -> None:
    with pytest.raises(TypeError, match="set is no part of a message"):
        encode({"names": {"a"}})


def test_what_is_nested_too_deep_to_be_read_is_no_message() -> None:
    with pytest.raises(MessageError, match="it is no JSON"):
        decode("[" * 200_000, dict)


def test_a_record_of_another_release_keeps_what_is_not_known() -> None:
    written = {"class": "io", "count": 0, "weather": {"sky": "blue"}, "more": 1}
    record = typed(written, Record)
    assert record == Record("io", count=0, more={"weather": {"sky": "blue"}, "more": 1})
    assert plain(record) == json.loads(encode(record)) == written
    with pytest.raises(MessageError, match="class: it is missing"):
        typed({"class_": "io"}, Record)


def test_a_field_that_says_nothing_may_be_left_out() -> None:
    assert plain(Record("io")) == {"class": "io", "count": None}
    assert plain(Record("io", [Part("a")], "n1")) == {
        "class": "io",
        "count": None,
        "parts": [{"name": "a", "size": None}],
        "node": "n1",
    }
