"""Superblocks of md, XFS and ext4 as a real kernel and real tools wrote them, and bytes that are none."""

from __future__ import annotations

import base64
import json
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.node_programs.scratch.disks import file_system, md_member, signatures

RECORDED: dict[str, str] = json.loads(
    (Path(__file__).parents[2] / "fixtures" / "scratch" / "superblocks.json").read_text()
)
"""Written by mdadm 4.2, mkfs.xfs 6.1 and mkfs.ext4 1.47 on Linux 6.1; chunk 512 KiB, four disks."""


def recorded(name: str) -> bytes:
    return base64.b64decode(RECORDED[name]).ljust(4096, b"\0")


@pytest.mark.parametrize(("name", "role"), [("b", 0), ("c", 1), ("d", 2), ("e", 3)])
def test_a_member_of_md_says_its_array_and_its_place(name: str, role: int) -> None:
    found = md_member(recorded(f"md member {name}"))
    assert found is not None
    assert (found.name, found.level, found.raid_disks) == ("gridwright:scratch", 0, 4)
    assert found.uuid == "69018621-d5e1-4f65-83af-b79ae7c9cae2", "as mdadm printed it, with its own dashes"
    assert (found.chunk_bytes, found.role, found.data_offset) == (512 * 1024, role, 2 << 20)
    assert found.intact


@given(at=st.integers(16, 511), bit=st.integers(0, 7))
def test_one_wrong_bit_shows_in_the_checksum(at: int, bit: int) -> None:
    data = bytearray(recorded("md member c"))
    data[at] ^= 1 << bit
    found = md_member(bytes(data))
    assert found is not None
    assert not found.intact
    assert found.role is None


def test_xfs_on_the_array_says_its_stripe() -> None:
    found = file_system(recorded("xfs on md"))
    assert found is not None
    assert (found.type, found.label, found.unit_bytes, found.width_bytes) == (
        "xfs",
        "scratch",
        524288,
        2097152,
    )
    assert found.uuid == "b862cf97-19eb-4815-a08b-7c386d79ddd4"
    assert found.finished


def test_a_plain_xfs_has_no_stripe_and_an_interrupted_one_is_not_finished() -> None:
    data = bytearray(recorded("xfs plain"))
    found = file_system(bytes(data))
    assert found is not None
    assert (found.label, found.unit_bytes, found.width_bytes, found.finished) == ("one", 0, 0, True)
    data[126] = 1
    cut_off = file_system(bytes(data))
    assert cut_off is not None
    assert not cut_off.finished


def test_ext4_says_its_stripe_and_ext2_is_not_ext4() -> None:
    data = bytearray(1024) + bytearray(base64.b64decode(RECORDED["ext4 aligned"]))
    found = file_system(bytes(data.ljust(4096, b"\0")))
    assert found is not None
    assert (found.type, found.label, found.unit_bytes, found.width_bytes) == (
        "ext4",
        "scratch",
        524288,
        2097152,
    )
    assert found.uuid == "11111111-2222-4333-8444-555555555555"
    struct.pack_into("<I", data, 1024 + 0x60, 0)
    older = file_system(bytes(data.ljust(4096, b"\0")))
    assert older is not None
    assert older.type == "ext2"


@given(st.binary(max_size=4096))
def test_any_bytes_are_read_without_a_fuss(data: bytes) -> None:
    assert md_member(data) is None or data[:4] == b"\xfc\x4e\x2b\xa9"
    found = file_system(data)
    assert found is None or found.type in ("xfs", "ext4", "ext2")


@given(st.binary(min_size=4088, max_size=4088))
def test_a_superblock_of_rubbish_is_not_intact(rest: bytes) -> None:
    found = md_member(struct.pack("<II", 0xA92B4EFC, 1) + rest)
    assert found is not None
    assert not found.intact


def test_wipefs_lists_every_signature() -> None:
    text = "# offset,uuid,label,type\n0x1fffffe00,,,gpt\n0x200,,,gpt\n0x1fe,,,PMBR\n"
    assert signatures(text) == ((0x1FE, "PMBR"), (0x200, "gpt"), (0x1FFFFFE00, "gpt"))
    older = "0x1000,69018621-d5e1-4f65-83af-b79ae7c9cae2,gridwright:scratch,linux_raid_member\n\n"
    assert signatures(older) == ((0x1000, "linux_raid_member"),)
    assert signatures("") == ()


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1))
def test_what_wipefs_says_otherwise_is_never_taken_for_blank(text: str) -> None:
    told = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    assert len(signatures(text)) == len(told)
