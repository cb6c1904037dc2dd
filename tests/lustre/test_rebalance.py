"""A rebalance on a real Lustre takes files from a full OST, on which its own journal lies.

One rebalance for all tests: the guest is emulated, and a command takes long.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.lustre_vm import LustreMachine, until_there

PLACE, JOURNAL = "/mnt/lustre/rebalanced", "/mnt/lustre/rebalanced/state/layouts/data.jsonl"
GRID = f"""
name: rebalanced
scheduler: {{type: local}}
state: {PLACE}/state
filesystems: {{scratch: {{type: lustre, path: /mnt/lustre, source: "192.168.77.1@tcp:/testfs"}}}}
libraries: {{data: {{filesystem: scratch, path: rebalanced, layout: 1}}}}
"""
FULL, MIB = 1, 1 << 20
MADE = f"""
mkdir -p {PLACE}/state/layouts && cd {PLACE}
lfs setstripe -i {FULL} -c 1 {JOURNAL} && chmod 644 {JOURNAL} && echo >{JOURNAL}
for i in one linked archived released open; do
  lfs setstripe -i {FULL} -c 1 $i && head -c 4M /dev/urandom >$i
done
lfs setstripe -c 2 wide && head -c 4M /dev/urandom >wide
ln linked link
sync
mkdir -p /srv/hsm2
lhsmtool_posix --hsm-root /srv/hsm2 --archive=2 /mnt/lustre2 >/dev/null 2>&1 </dev/null &
sleep 1
lfs hsm_archive --archive 2 archived released
for i in $(seq 150); do
  [ $(lfs hsm_state archived released | grep -c archived,) = 2 ] && break
  sleep 0.2
done
lfs hsm_release released
kill $!
lfs setstripe -i {FULL} -c 1 fill
fallocate -l $(($(lctl get_param -n osc.testfs-OST000{FULL}-osc-f*.kbytesavail | head -1) - 65536))K fill
dd if=/dev/zero bs=1M 2>/dev/null >>fill
dd if=/dev/zero bs=4k 2>/dev/null >>fill
mv fill ..
sync
"""
HELD = f"import time; file = open('{PLACE}/open', 'r+'); open('/root/held', 'w').close(); time.sleep(600)"
LOOKED = f"""
cd {PLACE} && lfs getstripe -i one linked link archived released open wide {JOURNAL} | xargs echo
sha256sum one linked wide
"""


@dataclass
class Rebalanced:
    """A library after a rebalance."""

    machine: LustreMachine
    before: list[str]
    """On which OST each file was, and the sums of those that may move."""
    after: list[str] = field(default_factory=list)
    report: dict[str, Any] = field(default_factory=dict)

    @property
    def files(self) -> dict[str, str]:
        """What became of what was found, by name."""
        return {each["path"].removeprefix(f"{PLACE}/"): each["state"] for each in self.report["files"]}


@pytest.fixture(scope="module")
def rebalanced(lustre: LustreMachine) -> Iterator[Rebalanced]:
    try:
        lustre.run(MADE)
        lustre.background(f'python3 -c "{HELD}"', "held")
        lustre.run(f"cat >/root/rebalance.yaml; {until_there('/root/held')}", given=GRID.encode())
        found = Rebalanced(lustre, lustre.run(LOOKED).out.splitlines())
        words = ("rebalance", "/root/rebalance.yaml", "--at-least", "1MiB", "--while-busy", "--json")
        ended = lustre.gridwright("layout", *words, ok=False)
        assert ended.status == 0, ended
        (found.report,) = json.loads(ended.out)["libraries"]
        found.after = lustre.run(LOOKED).out.splitlines()
        yield found
    finally:
        lustre.end("held")
        lustre.run(f"rm -rf {PLACE} /mnt/lustre/fill; sync")


def test_a_full_ost_is_relieved_where_the_journal_lies_on_it(rebalanced: Rebalanced) -> None:
    assert rebalanced.before[0].split()[-1] == str(FULL)
    moved = {name for name, state in rebalanced.files.items() if state == "moved"}
    assert {name.replace("linked", "link") for name in moved} == {"one", "link", "wide"}
    assert rebalanced.files["open"] == "busy"
    done = [json.loads(each) for each in rebalanced.machine.run(f"cat {JOURNAL}").out.split("\n") if each]
    assert [each["do"] for each in done][-1] == "end"
    assert sum(each["do"] == "moved" for each in done) == 3


def test_a_file_with_two_names_is_counted_and_moved_once(rebalanced: Rebalanced) -> None:
    assert len({"linked", "link"} & set(rebalanced.files)) == 1
    assert rebalanced.report["moved_bytes"] == 3 * 4 * MIB


def test_nothing_that_moves_goes_to_the_full_ost_and_its_bytes_stay(rebalanced: Rebalanced) -> None:
    one, linked, link, archived, _, open_, wide, journal = rebalanced.after[0].split()
    assert {one, linked, link, wide, journal} == {str(1 - FULL)}
    assert {archived, open_} == {str(FULL)}, "and one that is released lies nowhere"
    assert rebalanced.after[1:] == rebalanced.before[1:]


def test_what_the_archive_has_stays(rebalanced: Rebalanced) -> None:
    states = rebalanced.machine.run(f"cd {PLACE} && lfs hsm_state archived released").out
    assert "archived: (0x00000009) exists archived, archive_id:2" in states
    assert "released: (0x0000000d) released exists archived, archive_id:2" in states
