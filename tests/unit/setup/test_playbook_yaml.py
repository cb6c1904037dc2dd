"""Variables of the playbook are for Ansible what they were for Gridwright."""

from __future__ import annotations

from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from gridwright.setup.playbook import playbook_yaml

PRINTED = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), max_size=12)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | PRINTED,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PRINTED, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    "text", ["yes", "No", "on", "OFF", "y", "22:30", "1:30:00.5", "true", "0755", "~", "<<"]
)
def test_a_word_that_yaml_1_1_takes_for_something_else_stays_a_word(text: str) -> None:
    """numaMemoryInterleave of Spectrum Scale is the word yes."""
    assert yaml.safe_load(playbook_yaml({"value": text})) == {"value": text}


@given(st.dictionaries(PRINTED, PLAIN, max_size=3))
def test_all_plain_data_come_back(data: dict[str, Any]) -> None:
    assert yaml.safe_load(playbook_yaml(data)) == data
