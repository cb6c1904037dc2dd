"""What `--layout NAME` means for each library of a spec, and for a directory."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from gridwright.cli.prove.iotest import with_layout, with_layouts
from gridwright.errors import ExitStatus, GridwrightError
from gridwright.filesystems.layout import layout_text
from gridwright.iotest.recorded import directory_target, library_targets
from gridwright.spec import load_spec

SPEC = """\
name: lake
provider: local
filesystems:
  lake: {type: lustre, path: /lake, source: "10.0.0.10@tcp:/lake"}
  disk: {type: local, path: /disk}
libraries:
  data: {filesystem: lake, layout: [{until: 1 GiB, stripes: 1}, {stripes: 8}]}
  work: {filesystem: lake}
  util: {filesystem: disk}
"""
ADVISED = "-E 64M -c 1 -E 4G -c 4 -E -1 -c -1"


@pytest.mark.parametrize(
    ("name", "data", "work"),
    [
        ("spec", "-E 1G -c 1 -E -1 -c 8", ADVISED),
        ("auto", ADVISED, ADVISED),
        ("2", "-c 2", "-c 2"),
    ],
)
def test_each_library_has_the_layout_of_that_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, data: str, work: str
) -> None:
    (tmp_path / "grid.yaml").write_text(SPEC)
    spec = load_spec(tmp_path / "grid.yaml")
    tried = with_layouts(library_targets(spec), name, spec)
    found = {each.library: layout_text(each.layout.layout) for each in tried if each.layout}
    assert found == {"data": data, "work": work}
    assert {each.layout.kind for each in tried if each.layout} == {"lustre"}
    assert "not tested: library util: on " in capsys.readouterr().err


def test_a_directory_is_asked_for_its_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    target = directory_target(Path("/lake/data"), "directory", None)
    lustre, nfs = SimpleNamespace(filesystem_type="lustre"), SimpleNamespace(filesystem_type="nfs4")
    monkeypatch.setattr("gridwright.bounded.call_bounded", lambda *_: lustre)
    tried = with_layout(target, "-E 1G -c 1 -E -1 -c 8")
    assert tried.layout is not None
    assert layout_text(tried.layout.layout) == "-E 1G -c 1 -E -1 -c 8"
    with pytest.raises(GridwrightError, match="a stripe count of 2001"):
        with_layout(target, "2001")
    with pytest.raises(GridwrightError, match="a directory has no grid spec, by which auto is known"):
        with_layout(target, "auto")
    monkeypatch.setattr("gridwright.bounded.call_bounded", lambda *_: nfs)
    with pytest.raises(GridwrightError, match="on nfs4 nobody chooses") as refused:
        with_layout(target, "4")
    assert refused.value.status == ExitStatus.INPUT
