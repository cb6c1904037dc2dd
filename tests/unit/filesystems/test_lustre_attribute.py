"""The attribute lustre.lov: a real one, those of recorded layouts, and directories that are scanned."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gridwright.filesystems.layout import Component, FileLayout
from gridwright.filesystems.lustre_client.attribute import decode_attribute
from gridwright.filesystems.lustre_client.layout import parse_layout
from tests.fixtures.lustre_node import RECORDED, printed
from tests.support.lov_attribute import foreign_attribute, lov_attribute

PAIRS = [
    (RECORDED / "244-getfattr-lustre-lov.out", RECORDED / "211-getstripe-yaml-c2.out"),
    *((path, path.with_suffix(".yaml")) for path in sorted(RECORDED.glob("lov-*.xattr"))),
]
"""Attributes with what `lfs getstripe --yaml` said of the same file; more that are put there are read."""
MIB = 2**20


def recorded(name: str) -> FileLayout:
    found = parse_layout(printed(name))
    assert found is not None
    return found


def real_attribute(text: str) -> bytes:
    found = re.search(r"lustre\.lov=0x([0-9a-f]+)", text)
    assert found is not None
    return bytes.fromhex(found[1])


def test_the_attribute_of_a_real_file_says_what_lfs_said_of_it() -> None:
    stored = decode_attribute(real_attribute(printed("244-getfattr-lustre-lov")))
    assert stored.layout == recorded("211-getstripe-yaml-c2") == recorded("207-getstripe-c2")
    told = re.findall(r"l_fid:\s+(0x[0-9a-f]+):(0x[0-9a-f]+):", printed("211-getstripe-yaml-c2"))
    objects = stored.components[0].objects
    assert [(each.sequence, each.id) for each in objects] == [(int(a, 16), int(b, 16)) for a, b in told]


@pytest.mark.parametrize(("attribute", "yaml"), PAIRS, ids=lambda path: path.stem)
def test_every_recorded_attribute_says_what_lfs_said(attribute: Path, yaml: Path) -> None:
    stored = decode_attribute(real_attribute(attribute.read_text()))
    assert stored.layout == parse_layout(yaml.read_text())


@pytest.mark.parametrize(
    "name",
    [
        "205-getstripe-default",
        "207-getstripe-c2",
        "212-getstripe-yaml-pfl",
        "213-getstripe-yaml-dom",
        "217-getstripe-d-dir1",
        "220-getstripe-d-yaml-dir2",
        "221-getstripe-d-yaml-dir3",
        "236-getstripe-yaml-pool",
        "246-lfs-mirror-create",
        "248-setstripe-overstripe",
        "extra-04-getstripe-pfl-uninit",
    ],
)
def test_attributes_of_recorded_layouts_are_read_as_lfs_printed_them(name: str) -> None:
    assert decode_attribute(lov_attribute(recorded(name))).layout == recorded(name)


def test_a_released_file_has_no_objects_and_says_so() -> None:
    stored = decode_attribute(lov_attribute(recorded("609-hsm_state-released-yaml"), released=True))
    assert stored.components[0].released
    assert stored.layout == recorded("609-hsm_state-released-yaml")


def test_a_foreign_layout_has_a_type_and_no_components() -> None:
    stored = decode_attribute(foreign_attribute(0xDA05, b"uuid@place"))
    assert (stored.foreign, stored.layout) == (0xDA05, None)
    with pytest.raises(ValueError, match="ends before what it announces"):
        decode_attribute(foreign_attribute(0xDA05, b"uuid@place")[:-1])


def test_a_component_that_extends_itself_tells_by_how_much() -> None:
    first = Component(end=64 * MIB, stripe_bytes=MIB, flags=("init",), osts=(1,))
    rest = Component(start=64 * MIB, end=256 * MIB, flags=("extension",))
    stored = decode_attribute(lov_attribute(FileLayout((first, rest)), extension_bytes=128 * MIB))
    assert stored.layout == FileLayout((first, rest))
    assert stored.components[1].extension_bytes == 128 * MIB


@pytest.mark.parametrize(
    ("attribute", "reason"),
    [
        (b"", "ends before"),
        (b"\x0b\xd1\x0b\xd0" + bytes(60), "other byte order"),
        (bytes(64), "no layout of a release that is known"),
    ],
)
def test_what_is_no_layout_is_refused_with_the_reason(attribute: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decode_attribute(attribute)
