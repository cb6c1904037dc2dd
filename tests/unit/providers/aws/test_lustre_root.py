"""Root of a node is nobody on a Lustre of the grid's own, and root of head and login node stays root."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from jinja2 import Environment

import gridwright.providers.boot
from gridwright.providers.aws.layout import aws_layout
from gridwright.providers.aws.machine_files import role_variables
from gridwright.spec import parse_spec
from tests.support.aws_grid import FSX, LUSTRE
from tests.support.aws_updates import effects
from tests.support.skips import needs

ROLE = Path(gridwright.providers.boot.__file__).parent / "roles" / "lustre_server"
LCTL = """#!/bin/sh
# Parameters are files of a directory; list_param takes a pattern, as lctl does.
cd "$PARAMETERS" || exit 1
case $1 in
  list_param) ls | while read -r each; do case $each in $2) echo "$each" ;; esac; done ;;
  get_param)
    if [ "$2" = -n ]; then for each in $3; do cat "$each" && echo; done
    else for each in $2; do echo "$each=$(cat "$each")"; done; fi ;;
  set_param)
    name=${2%%=*}
    [ -w "$name" ] || exit 1
    echo "$name" >> ../order
    printf %s "${2#*=}" > "$name" ;;
esac
"""
MDT = ("mdt.shared-MDT0000.root_squash", "mdt.shared-MDT0000.nosquash_nids")
OTHER = "mdt.other-MDT0000.root_squash"


def squash(text: str) -> list[dict[str, str]]:
    """What the role of servers is told by a spec."""
    spec = parse_spec(text)
    found: list[dict[str, str]] = role_variables(spec, aws_layout(spec), "servers")[
        "lustre_server_root_squash"
    ]
    return found


def unsquashed(value: str = "none") -> str:
    return LUSTRE.replace("    path: /shared\n", f"    path: /shared\n    root_squash: {value}\n")


def run(
    told: list[dict[str, str]],
    directory: Path,
    parameters: tuple[str, ...],
    *words: str,
    rows: Sequence[Mapping[str, object]] = (),
) -> int:
    """Run the program of a server, with an lctl that knows these parameters; its exit status."""
    there = directory / "parameters"
    there.mkdir(exist_ok=True)
    for each in parameters:
        (there / each).write_text("0:0")
    lctl = directory / "lctl"
    lctl.write_text(LCTL)
    lctl.chmod(0o755)
    template = (ROLE / "templates" / "lustre-server.sh.j2").read_text()
    text = Environment(trim_blocks=True, autoescape=False).from_string(template)  # noqa: S701 - a shell script
    program = text.render(base_rows={"lustre-server": rows}, lustre_server_root_squash=told)
    paths = {"PATH": f"{directory}:/usr/bin:/bin", "PARAMETERS": str(there)}
    return subprocess.run(
        ["/bin/sh", "-c", program, "server", *words], env=paths, check=False, timeout=30
    ).returncode


def test_root_of_nodes_is_nobody_and_head_and_login_node_keep_it(tmp_path: Path) -> None:
    told = squash(LUSTRE)
    assert run(told, tmp_path, (*MDT, OTHER)) == 0
    layout = aws_layout(parse_spec(LUSTRE))
    kept = (tmp_path / "parameters" / MDT[1]).read_text().split()
    assert kept == [f"{layout.addresses[each]}@tcp" for each in ("login1", "controller")]
    assert not {f"{layout.addresses[each]}@tcp" for each in ("compute1", "shared-oss1")} & set(kept)
    assert (tmp_path / "parameters" / MDT[0]).read_text() == "65534:65534"
    assert (tmp_path / "parameters" / OTHER).read_text() == "0:0", "another Lustre is left alone"
    order = (tmp_path / "order").read_text().split()
    assert order == [MDT[1], MDT[0]], "those who keep root are named before the others lose it"


@pytest.mark.parametrize("value", ["none", "1001:1002"])
def test_the_spec_chooses_whom_root_becomes_and_takes_it_back(value: str, tmp_path: Path) -> None:
    assert run(squash(LUSTRE), tmp_path, MDT) == 0
    assert run(squash(unsquashed(value)), tmp_path, ()) == 0
    found = [(tmp_path / "parameters" / each).read_text() for each in MDT]
    assert found[0] == ("0:0" if value == "none" else value)
    assert (found[1] == "NONE") == (value == "none")


def test_a_server_without_metadata_sets_nothing_and_one_that_cannot_fails(tmp_path: Path) -> None:
    assert run(squash(LUSTRE), tmp_path, ("obdfilter.shared-OST0000.brw_size",)) == 0
    assert not (tmp_path / "order").exists()
    failing = tmp_path / "failing"
    failing.mkdir()
    assert run(squash(LUSTRE), failing, MDT) == 0
    (failing / "parameters" / MDT[0]).unlink()
    (failing / "parameters" / MDT[0]).symlink_to("/nonexistent/x")
    assert run(squash(LUSTRE), failing, ()) == 1


def test_a_change_touches_servers_in_place_and_nothing_else() -> None:
    assert effects(LUSTRE, unsquashed()) == {}
    spec = parse_spec(LUSTRE)
    assert "lustre_server_root_squash" not in role_variables(spec, aws_layout(spec), "nodes")
    assert squash(FSX) == []


def test_a_target_that_is_mounted_anew_is_set_again_within_a_minute_and_others_are_left(
    tmp_path: Path,
) -> None:
    """What is set is gone with the mount: the timer's unit finds that, and writes nothing else."""
    told = squash(LUSTRE)
    unit = (ROLE / "templates/gridwright-lustre-server.service.j2").read_text()
    (start,) = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
    words = start.split()[1:]
    assert run(told, tmp_path, MDT, *words) == 0
    order = (tmp_path / "order").read_text().split()
    assert run(told, tmp_path, (), *words) == 0
    assert (tmp_path / "order").read_text().split() == order
    assert run(told, tmp_path, MDT, *words) == 0
    assert (tmp_path / "parameters" / MDT[0]).read_text() == "65534:65534"
    assert (tmp_path / "order").read_text().split() == order * 2
    assert run(told, tmp_path, ()) == 0, "setup sets them in every case"
    assert (tmp_path / "order").read_text().split() == order * 3


def test_units_of_a_server_are_such_as_systemd_takes(tmp_path: Path) -> None:
    needs("systemd-analyze")
    for name in ("service", "timer"):
        text = (ROLE / f"templates/gridwright-lustre-server.{name}.j2").read_text()
        text = text.replace("/usr/local/lib/gridwright/lustre-server.sh", "/bin/true").replace(
            "{{ lustre_server_targets_unit }}", "basic.target"
        )
        (tmp_path / f"gridwright-lustre-server.{name}").write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", tmp_path / "gridwright-lustre-server.timer"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "RemainAfterExit" not in (ROLE / "templates/gridwright-lustre-server.service.j2").read_text()


def test_parameters_of_a_target_that_was_mounted_anew_are_set_again(tmp_path: Path) -> None:
    """Lustre keeps none of them over a remount; the timer runs the program each minute."""
    cache, threads = "obdfilter.shared-OST0000.readcache_max_filesize", "ost.OSS.ost_io.threads_max"
    rows = [
        {"key": "obdfilter.shared-OST*.readcache_max_filesize", "wanted": 1048576},
        {"key": threads, "wanted": 256, "compare": "at-least"},
    ]
    there = tmp_path / "parameters"
    there.mkdir()
    for value, left in (("18446744073709551615", "512"), ("0", "64")):
        (there / cache).write_text(value)
        (there / threads).write_text(left)
        assert run([], tmp_path, (), "again", rows=rows) == 0
        assert (there / cache).read_text() == "1048576"
        assert (there / threads).read_text() == ("512" if left == "512" else "256")
