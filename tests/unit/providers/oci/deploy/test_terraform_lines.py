"""What tofu and terraform print with -json, whole and broken."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from gridwright.providers.oci.deploy import MOST_TEXT, MOST_TOLD, TerraformLines

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "diagnostic", "severity", "summary"]), inner, max_size=3)
    ),
    max_leaves=8,
)


def error(summary: str, detail: str = "", address: str | None = None) -> str:
    diagnostic = {"severity": "error", "summary": summary, "detail": detail, "address": address}
    return json.dumps({"@level": "error", "type": "diagnostic", "diagnostic": diagnostic})


def read(*lines: str) -> TerraformLines:
    found = TerraformLines()
    found.take(lines)
    return found


def test_errors_are_told_with_their_resource_and_on_one_line() -> None:
    found = read(
        json.dumps({"type": "apply_complete", "hook": {}}),
        json.dumps({"type": "diagnostic", "diagnostic": {"severity": "warning", "summary": "deprecated"}}),
        error("400-LimitExceeded", "first\n  second", "oci_core_instance.compute1"),
        error("400-LimitExceeded", "first\n  second", "oci_core_instance.compute1"),
    )
    assert found.done == 1
    assert found.why == "oci_core_instance.compute1: 400-LimitExceeded: first second"


def test_of_many_and_long_ones_some_are_told() -> None:
    found = read(*(error(f"problem {number}", "x" * 5000) for number in range(MOST_TOLD + 3)))
    assert found.why.endswith("; and 3 more")
    assert len(found.why) < (MOST_TOLD + 1) * (MOST_TEXT + 10)


def test_a_crash_is_told_by_its_last_words() -> None:
    found = read("panic: runtime error", *(f"goroutine {number}" for number in range(MOST_TOLD - 1)))
    assert found.why.startswith("panic: runtime error; goroutine 0")
    assert read().why == ""


@given(st.lists(JSON.map(json.dumps) | st.text(max_size=20), max_size=5))
def test_whatever_is_printed_is_read(lines: list[str]) -> None:
    found = read(*lines)
    assert isinstance(found.why, str)
    assert len(found.plain) + len(found.problems) + found.done <= 2 * len(lines)
