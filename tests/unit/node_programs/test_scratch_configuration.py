"""Configuration and state of scratch storage: read in full or refused with everything that is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.node_programs.scratch.configuration import (
    Configuration,
    DesiredDirectory,
    parse_configuration,
    read_configuration,
)
from gridwright.node_programs.scratch.problems import ScratchError
from gridwright.node_programs.scratch.state import NOTHING, Build, read_state, write_state

WHOLE: dict[str, Any] = {
    "schema": 1,
    "wait_seconds": 5,
    "state_file": "/var/lib/x.json",
    "arrays": [
        {
            "name": "scratch",
            "mount_point": "/scratch",
            "members": 4,
            "chunk_bytes": 65536,
            "format": "ext4",
            "read_ahead_kib": 4096,
            "owner": "root",
            "group": "0",
            "mode": "0751",
            "directories": [{"path": "a/work", "mode": "1770", "owner": "sas"}],
            "match": [{"transport": "nvme", "model": "X*", "at_least_bytes": 5}],
        }
    ],
}


def test_every_field_is_read() -> None:
    found = parse_configuration(WHOLE)
    (array,) = found.arrays
    assert (found.wait_seconds, found.state_file) == (5, Path("/var/lib/x.json"))
    assert (array.members, array.chunk_bytes, array.format, array.read_ahead_kib) == (4, 65536, "ext4", 4096)
    assert array.root == DesiredDirectory(".", "root", "0", 0o751)
    assert array.directories == (DesiredDirectory("a/work", "sas", "root", 0o1770),)
    assert (array.match[0].transport, array.match[0].model, array.match[0].at_least_bytes) == (
        "nvme",
        "X*",
        5,
    )


def test_a_name_and_a_mount_point_are_enough() -> None:
    least = {"schema": 1, "arrays": [{"name": "scratch", "mount_point": "/scratch"}]}
    (array,) = parse_configuration(least).arrays
    assert (array.members, array.chunk_bytes, array.format) == (None, 524288, "xfs")
    assert parse_configuration({"schema": 1, "arrays": []}) == Configuration()


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("name", "Scratch!", "letters a to z"),
        ("name", "a" * 21, "1 to 20"),
        ("mount_point", "scratch", "an absolute path"),
        ("mount_point", "/a/../etc", "an absolute path"),
        ("mount_point", "/", "a directory of its own"),
        ("members", 0, "from 1 to 128"),
        ("members", True, "from 1 to 128"),
        ("chunk_bytes", 5000, "a multiple of 4096"),
        ("format", "btrfs", "xfs or ext4"),
        ("mode", 511, "octal"),
        ("mode", "0999", "octal"),
        ("owner", -1, "a name or a number"),
        ("directories", [{"path": "../etc"}], "below the mount point"),
        ("directories", [{"path": "/etc"}], "below the mount point"),
        ("match", [{}], "a rule that says something"),
        ("match", [{"at_least_bytes": 1}], "besides the size"),
        ("match", [{"transport": "usb"}], "nvme, virtio"),
        ("members_", 3, "one of"),
    ],
)
def test_a_wrong_field_is_named_with_what_it_takes(key: str, value: Any, said: str) -> None:
    wrong = json.loads(json.dumps(WHOLE))
    wrong["arrays"][0][key] = value
    with pytest.raises(ScratchError) as error:
        parse_configuration(wrong)
    assert error.value.status == 2
    assert said in str(error.value)
    assert "arrays[0]" in str(error.value)


def test_everything_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(ScratchError) as error:
        parse_configuration({"schema": 2, "arrays": [{"name": "", "mount_point": ""}, 7], "extra": 1})
    assert len(error.value.troubles) >= 5


def test_two_arrays_that_would_each_take_all_disks_are_refused() -> None:
    both = [{"name": name, "mount_point": f"/{name}"} for name in ("work", "util")]
    with pytest.raises(ScratchError, match="work and util"):
        parse_configuration({"schema": 1, "arrays": both})
    with pytest.raises(ScratchError, match="no other array has"):
        parse_configuration(
            {"schema": 1, "arrays": [both[0], {**both[1], "mount_point": "/work", "members": 1}]}
        )


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*WHOLE, *WHOLE["arrays"][0]]), inner)
    ),
    max_leaves=12,
)


@given(json_values)
def test_no_json_makes_it_stumble(data: Any) -> None:
    try:
        parse_configuration(data)
    except ScratchError as error:
        assert error.status == 2
        assert all(trouble.remedy for trouble in error.troubles)


@pytest.mark.parametrize(
    ("content", "said"), [(b"{", "not JSON"), (b"\xff", "not UTF-8"), (b"[" * 100_000, "nested too deep")]
)
def test_a_file_that_is_no_configuration_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "scratch.json"
    file.write_bytes(content)
    with pytest.raises(ScratchError, match=said) as error:
        read_configuration(file)
    assert error.value.status == 2
    assert str(file) in str(error.value)


BUILD = Build("scratch", ("S1", "S2"), "m", "f", "xfs", 524288, "2026-11-21T10:00:00+00:00")


def test_the_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "below" / "state.json"
    assert read_state(file) == NOTHING
    write_state(file, NOTHING.with_intent(BUILD))
    assert read_state(file).intents == {"scratch": BUILD}
    write_state(file, read_state(file).with_made(BUILD))
    assert read_state(file).made == {"scratch": BUILD}
    assert read_state(file).intents == {}
    assert [each.name for each in file.parent.iterdir()] == ["state.json"]


@pytest.mark.parametrize(
    "content",
    ["", "{}", "[]", '{"schema": 1}', '{"schema": 1, "made": [{}], "intents": []}', '{"schema": 2}'],
)
def test_a_state_of_somebody_else_stops_everything_with_a_way_out(tmp_path: Path, content: str) -> None:
    file = tmp_path / "state.json"
    file.write_text(content)
    with pytest.raises(ScratchError, match="not what gridwright wrote") as error:
        read_state(file)
    assert f"mv {file} {file}.old" in str(error.value)
    assert error.value.status == 3
