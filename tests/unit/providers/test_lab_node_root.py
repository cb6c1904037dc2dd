"""The root of a node: what it began with is what it boots with."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridwright.providers.lab.boot import RootPlan, _make_temporary, _overlay


def test_a_node_that_began_with_copies_goes_on_with_them(tmp_path: Path) -> None:
    """The machine may have overlays after a reboot: on one the node would miss all that it wrote."""
    changes = tmp_path / "changes"
    (changes / "copies" / "home").mkdir(parents=True)
    plan = RootPlan(image=tmp_path / "image", changes=changes, files={}, shares=())
    assert not _overlay(plan, tmp_path / "root")
    assert [path.name for path in changes.iterdir()] == ["copies"]


def test_a_link_that_a_nodes_root_left_for_tmp_leads_nowhere_on_this_machine(tmp_path: Path) -> None:
    elsewhere, root = tmp_path / "elsewhere", tmp_path / "root"
    elsewhere.mkdir(mode=0o700)
    root.mkdir()
    (root / "tmp").symlink_to(elsewhere)
    with pytest.raises(OSError, match="tmp"):
        _make_temporary(root)
    assert elsewhere.stat().st_mode & 0o7777 == 0o700
    (root / "tmp").unlink()
    _make_temporary(root)
    assert (root / "tmp").stat().st_mode & 0o7777 == 0o1777
