"""Processes of a node, read in one call and one by one."""

from __future__ import annotations

import os
import subprocess

from gridwright.interference.processes import ProcessFiles, moved_bytes, processes


def test_all_in_one_call_are_the_same_as_one_by_one() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        table = ProcessFiles()
        table.look()
        found, one_by_one = table.look(), {each.pid: each for each in processes()}
        for pid in (child.pid, os.getppid()):
            several, alone = found[pid], one_by_one[pid]
            assert several.identity == alone.identity
            assert (several.parent, several.name, several.kernel) == (alone.parent, alone.name, alone.kernel)
            assert 0 <= alone.own_ticks - several.own_ticks < 100
        assert moved_bytes(child.pid) is not None
        assert found[child.pid].traffic == moved_bytes(child.pid)
        child.kill()
    assert child.pid not in table.look()
