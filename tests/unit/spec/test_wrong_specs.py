"""Every wrong spec is refused with reviewed messages; bless changes with `pytest --snapshot-update`."""

import importlib.util
import re
import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion
from tests.support.examples import examples

from gridwright.errors import ExitStatus, GridwrightError, Problem
from gridwright.spec import init_text, parse_spec
from gridwright.spec.load import GRID_SPEC
from gridwright.yamltext.load import MAX_PROBLEMS


def _samples(file: str) -> dict[str, str | bytes]:
    """Of a file of data beside this one: test directories are no packages."""
    found = importlib.util.spec_from_file_location(file, Path(__file__).with_name(f"{file}.py"))
    assert found
    assert found.loader
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    samples: dict[str, str | bytes] = module.WRONG
    return samples


WRONG = _samples("wrong_specs") | _samples("wrong_repositories")


def refuse(text: str | bytes) -> GridwrightError:
    with pytest.raises(GridwrightError) as caught:
        parse_spec(text, base=Path("/base"))
    return caught.value


@pytest.mark.parametrize("name", WRONG)
def test_message(name: str, snapshot: SnapshotAssertion) -> None:
    started = time.process_time()
    error = refuse(WRONG[name])
    assert time.process_time() - started < 10, "a wrong spec must be refused quickly"
    assert error.status is ExitStatus.INPUT
    assert str(error) == snapshot


def test_there_are_enough_samples() -> None:
    assert len(WRONG) == len(_samples("wrong_specs")) + len(_samples("wrong_repositories")) >= 30


@pytest.mark.parametrize("name", WRONG)
def test_problems_have_the_common_form(name: str) -> None:
    problems = refuse(WRONG[name]).problems
    assert len(problems) <= MAX_PROBLEMS + 1
    assert len(set(problems)) == len(problems)
    for problem in problems:
        assert problem.remedy, f"{problem.what} leaves the user alone"
        assert problem.remedy[0] == problem.remedy[0].upper() or problem.remedy[0].isdigit()
        assert not problem.what.endswith(".")
        assert "Input should" not in problem.what, "pydantic's words reach the user"


def position(problem: Problem) -> tuple[int, int] | None:
    found = re.fullmatch(r"grid\.yaml:(\d+):(\d+)", problem.where or "")
    return (int(found[1]), int(found[2])) if found else None


def check_positions(text: str | bytes) -> None:
    try:
        parse_spec(text, base=Path("/base"))
    except GridwrightError as error:
        if isinstance(text, bytes):
            text = text.decode("utf-8", "replace")
        lines = re.split(r"\r\n|\n|\r", text)
        for problem in error.problems:
            if place := position(problem):
                line, column = place
                assert 1 <= line <= len(lines)
                assert 1 <= column <= len(lines[line - 1]) + 1


YAMLISH = st.text(
    alphabet=st.sampled_from(
        [
            *"\n\n\n   ::--[]{}&*!|>'\"%@`#,?~<.0123456789abeglnort\t\r\\_/",
            "\ufeff",
            "\x85",
            "\u2028",
            "é",
            "名",
        ]
    ),
    max_size=120,
)
PIECES = st.lists(
    st.sampled_from(
        [
            "name: demo\n", "filesystems:\n", "  disk: {type: local, path: /d}\n", "libraries:\n",
            "  work:\n",
            "    requires: 1 MB/s/core\n", "  work: {filesystem: disk}\n", "nodes: ", "{}", "[]", "\n", "- ",
            "  ", "&a ", "*a", "<<: *a\n", "!!binary ", "? ", "| \n", "~\n", "no\n", "silence:\n", "  x: y\n",
            "...\n", "---\n", "path: ", "type: ", "local\n", "'", '"', "count: 1\n",
            "provider: local\n", "scheduler: ", "\t",
        ]
    ),
    max_size=25,
).map("".join)  # fmt: skip


@settings(max_examples=examples(300), deadline=None)
@given(st.one_of(st.text(max_size=100), st.binary(max_size=100), YAMLISH, PIECES))
@example("%YAML 2.0\n---\na: 1")
@example("%TAG ! x\n---\na: !b 1")
@example('"\\UFFFFFFFF": 1')
@example("a: !<x")
@example("!%ff a")
@example("&a [*a]: 1")
@example("{&a : *a}")
@example("*a : 1")
@example("\ufeff\ufeff")
@example("\r\r\n\n\x85a: [")
def test_any_text_raises_only_our_error_with_positions_in_the_file(text: str | bytes) -> None:
    check_positions(text)


@settings(max_examples=examples(100), deadline=None)
@given(st.data())
def test_a_damaged_spec_raises_only_our_error(data: st.DataObject) -> None:
    text = init_text()
    at = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(at, min(len(text), at + 30)))
    check_positions(text[:at] + data.draw(st.text(max_size=8)) + text[end:])


@pytest.mark.parametrize(
    "unit", ["[", "{", "- ", "? ", "a b ", "a\n", "\n", "#\n", "&a ", "!a ", "'a\n", "a: |\n ", "*a "]
)
def test_the_largest_junk_is_refused_in_seconds(unit: str) -> None:
    started = time.process_time()
    with pytest.raises(GridwrightError):
        parse_spec(unit * (GRID_SPEC.max_bytes // len(unit)))
    assert time.process_time() - started < 20


def test_a_message_names_the_value_given() -> None:
    for wrong in ("3 parsecs", "17 furlongs"):
        error = refuse(
            f"filesystems:\n  d: {{type: local, path: /d}}\nlibraries:\n  work: {{requires: {wrong}}}\n"
        )
        assert wrong in error.problems[0].what
