"""Files that are named to be written: what refuses one is told before any work is done for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gridwright.cli.arguments import Reader
from gridwright.cli.output import check_output, next_name, what_is_there
from gridwright.errors import ExitStatus, GridwrightError


def problem(path: Path, *, overwrite: bool = True) -> tuple[ExitStatus, str, str]:
    reader = Reader()
    with pytest.raises(GridwrightError) as caught:
        check_output(reader, "--write", path, overwrite=overwrite)
        reader.finish(path)
    (found,) = caught.value.problems
    assert found.where in ("--write", str(path))
    return caught.value.status, found.what, found.remedy or ""


def test_a_file_that_can_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    check_output(Reader(), "--write", tmp_path / "new.yaml")
    assert list(tmp_path.iterdir()) == []


def test_what_refuses_a_file_is_told(tmp_path: Path) -> None:
    assert problem(tmp_path)[:2] == (ExitStatus.INPUT, f"{tmp_path} is a directory")
    missing = tmp_path / "no" / "p.html"
    assert problem(missing)[:2] == (ExitStatus.INPUT, f"there is no directory {tmp_path}/no")
    for place in ("/proc/p.html", "/sys/p.html"):
        status, what, remedy = problem(Path(place))
        assert status is ExitStatus.ENVIRONMENT
        assert what.startswith("cannot be written: ")
        assert remedy


def test_a_file_that_is_there_is_named_with_the_next_name_that_is_free(tmp_path: Path) -> None:
    file = tmp_path / "grid.yaml"
    file.write_text("name: mine\nfilesystems: {disk: {type: local, path: /d}}\n")
    (tmp_path / "grid-2.yaml").touch()
    status, what, remedy = problem(file, overwrite=False)
    assert status is ExitStatus.INPUT
    assert what == f"{file} is there already: the spec of grid mine, provider local"
    assert remedy == f"write {tmp_path}/grid-3.yaml, or replace it with --overwrite"
    check_output(Reader(), "--write", file, overwrite=True)
    assert what_is_there(tmp_path / "grid-2.yaml") == "no grid spec"
    (tmp_path / "lost.yaml").symlink_to("nowhere")
    assert "a link that leads nowhere" in problem(tmp_path / "lost.yaml", overwrite=False)[1]
    assert next_name(tmp_path / "a-b") == tmp_path / "a-b-2"
