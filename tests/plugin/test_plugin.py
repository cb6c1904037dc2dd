"""A site's own package adds a file system, a provider and a scheduler: every command works with them.

The package is `gridwright_toy` beside this file, which docs/extending.md walks through. It is installed into
an environment of its own, which sees Gridwright as this one does.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src" / "gridwright"
START = "from gridwright.cli.start import run; run()"
SPEC = """\
name: toys
provider: toy
toy: {{box: {here}/boxes, colour: amber}}
filesystems:
  shelf: {{type: toyfs, path: {here}/shelf, server: toyserver, delivers: {{write: 400 MB/s, read: 600 MB/s}}}}
libraries:
  data: {{requires: 1 MB/s/core}}
  work: {{requires: 1 MB/s/core}}
  util: {{requires: 1 MB/s/core}}
scheduler: {{type: toy, greeting: good morning}}
state: {here}/state
"""


@dataclass(frozen=True)
class Site:
    """An environment with extensions, and a directory with a spec."""

    environment: Path
    directory: Path

    def run(self, *arguments: str, status: int = 0) -> str:
        """Run a command of Gridwright; what it printed on stdout."""
        done = self.answer(*arguments)
        assert done.returncode == status, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout

    def json(self, *arguments: str, status: int = 0) -> Any:
        """The same with --json, as the document that it printed."""
        return json.loads(self.run(*arguments, "--json", status=status))

    def answer(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """All that came of a command, whatever its exit status."""
        command = [str(self.environment / "bin" / "python"), "-P", "-c", START, *arguments]
        return subprocess.run(
            command,
            cwd=self.directory,
            env={
                **os.environ,
                "PATH": f"{self.directory}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            },
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


def environment_with(path: Path, *extensions: Path) -> Path:
    """A virtual environment that has these extensions, and besides what the environment of the tests has."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(path)], check=True, timeout=60)
    python = path / "bin" / "python"
    site_packages = next(path.glob("lib/python*/site-packages"))
    shared = [each for each in sys.path if each.endswith("site-packages")]
    lines = [f"import site; site.addsitedir({each!r})" for each in shared]
    (site_packages / "tests.pth").write_text("\n".join(lines) + "\n")
    for extension in extensions:
        # A copy: a build backend may write beside the sources.
        source = path / "sources" / extension.name
        shutil.copytree(extension, source, ignore=shutil.ignore_patterns("__pycache__", "test_*"))
        install = [
            str(python),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--no-index",
            "--no-build-isolation",
        ]
        subprocess.run([*install, str(source)], check=True, timeout=120)
    return path


@pytest.fixture(scope="module")
def toy_environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment_with(tmp_path_factory.mktemp("toy") / "venv", HERE)


@pytest.fixture
def toy(toy_environment: Path, tmp_path: Path) -> Site:
    return at(toy_environment, tmp_path)


def at(environment: Path, directory: Path) -> Site:
    for library in ("data", "work", "util"):
        (directory / "shelf" / library).mkdir(parents=True)
    (directory / "grid.yaml").write_text(SPEC.format(here=directory))
    return Site(environment, directory)


def test_nothing_of_the_source_knows_the_toys() -> None:
    files = [each for each in SOURCE.rglob("*") if each.suffix in {".py", ".yaml", ".csv", ".j2", ".yml"}]
    assert len(files) > 300
    assert [
        each for each in files if "toyfs" in each.read_text() or "gridwright_toy" in each.read_text()
    ] == []


def test_check_takes_the_spec_and_names_what_is_wrong(toy: Site) -> None:
    assert toy.json("check")["ok"] is True
    wrong = (toy.directory / "grid.yaml").read_text().replace("amber", "pink").replace("greeting", "greting")
    (toy.directory / "wrong.yaml").write_text(wrong)
    problems = toy.json("check", "wrong.yaml", status=2)["problems"]
    assert {each["field"] for each in problems} == {"toy.colour", "scheduler.greting"}
    assert "greeting" in next(each["remedy"] for each in problems if each["field"] == "scheduler.greting")


def test_a_section_of_another_provider_is_refused(toy: Site) -> None:
    text = (toy.directory / "grid.yaml").read_text()
    (toy.directory / "wrong.yaml").write_text(text.replace("provider: toy", "provider: local"))
    problems = toy.json("check", "wrong.yaml", status=2)["problems"]
    assert [each["field"] for each in problems] == ["toy"]
    assert "provider: toy" in problems[0]["remedy"]


def test_schema_has_all_three(toy: Site) -> None:
    schema = toy.run("schema")
    document = json.loads(schema)
    assert "toy" in document["properties"]
    assert "toyfs is the toy server of the site" in schema
    assert "What each job finds in TOY_GREETING" in schema


def test_init_writes_the_template_of_the_provider(toy: Site) -> None:
    toy.run("init", "--provider", "toy", "new.yaml")
    assert toy.json("check", "new.yaml")["ok"] is True


def test_predict_asks_the_kind(toy: Site) -> None:
    document = toy.json("predict")
    assert "toy server toyserver" in json.dumps(document)


def test_render_has_the_role_the_mount_and_the_notes(toy: Site) -> None:
    toy.run("render", "--out", "rendered")
    rendered = toy.directory / "rendered"
    assert (rendered / "roles" / "toyfs_client" / "tasks" / "main.yml").is_file()
    assert "fuse.toyfs" in (rendered / "group_vars" / "all.yml").read_text()
    assert "mount-toyfs-sync" in (rendered / "tuning.yaml").read_text()
    assert "The lamps of this grid are in" in (rendered / "README.md").read_text()


def test_up_status_down(toy: Site) -> None:
    assert toy.json("status")["state"] == "not-up"
    assert "compute1: amber" in toy.run("up")
    assert toy.json("status")["lamps"] == {"compute1": "amber"}
    assert toy.json("down", "--yes")["put_out"] == ["compute1"]
    assert not (toy.directory / "boxes" / "toys").exists()


def test_too_many_lamps_are_refused_before_anything_is_made(toy: Site) -> None:
    text = (toy.directory / "grid.yaml").read_text()
    (toy.directory / "grid.yaml").write_text(text + "nodes: {compute: {count: 9}}\n")
    problems = toy.json("up", status=2)["problems"]
    assert [each["field"] for each in problems] == ["nodes.compute.count"]
    assert not (toy.directory / "boxes").exists()


def test_doctor_asks_the_kind_how_it_is(toy: Site) -> None:
    before = toy.answer("doctor", "--json").stdout
    assert "toyserver lost a disk" not in before
    (toy.directory / "shelf" / ".toyfs-broken").touch()
    after = json.loads(toy.answer("doctor", "--json").stdout)
    assert "toyserver lost a disk" in json.dumps(after)


PART = """\
import sys
from gridwright.grid.node_python import extensions_of
from gridwright.grid.node_python import node_part
from gridwright.spec import load_spec
sys.stdout.buffer.write(node_part(extensions_of(load_spec("grid.yaml"))).content)
"""


def test_a_node_that_has_but_the_part_that_was_brought_to_it_knows_the_kind(toy: Site) -> None:
    part = subprocess.run(
        [toy.environment / "bin" / "python", "-P", "-c", PART],
        cwd=toy.directory,
        capture_output=True,
        timeout=60,
        check=True,
    )
    with tarfile.open(fileobj=io.BytesIO(part.stdout)) as archive:
        archive.extractall(toy.directory / "node", filter="data")
    delivers = {"write": "400 MB/s", "read": "600 MB/s"}
    place = str(toy.directory / "shelf")
    shelf = {"type": "toyfs", "path": place, "server": "toyserver", "delivers": delivers}
    (toy.directory / "shelf" / ".toyfs-broken").touch()
    gathered = subprocess.run(
        [os.path.realpath(sys.executable), "-S", "-P", "-m", "gridwright.doctor.facts.gather"],
        input=json.dumps({"libraries": {}, "filesystems": {"shelf": shelf}}).encode(),
        env={"PYTHONPATH": str(toy.directory / "node")},
        capture_output=True,
        timeout=60,
        check=True,
    )
    (found,) = json.loads(gathered.stdout)["health"]["shelf"]
    assert found["name"] == "toyfs-lost-disk"


def toyctl(toy: Site, read_ahead: int) -> None:
    """Install the toy client's program, which notes down what it is told to set."""
    program = toy.directory / "toyctl"
    program.write_text(
        f'#!/bin/sh\n[ "$1" = get ] || echo "$@" >> {toy.directory}/told\necho read-ahead {read_ahead}\n'
    )
    program.chmod(0o755)


@pytest.mark.few(1)
@pytest.mark.parametrize(("read_ahead", "right"), [(4, False), (16, True), (64, True)])
def test_doctor_holds_a_setting_of_the_kind(toy: Site, read_ahead: int, right: bool) -> None:
    toyctl(toy, read_ahead)
    (found,) = toy.json("doctor", "--all", "--only", "toyfs-read-ahead")["checks"]
    assert found["ok"] is right
    assert found["found"] == f"toyctl read-ahead = {read_ahead}"
    assert not (toy.directory / "told").exists()


@pytest.mark.thorough
@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="not as root")
def test_setup_check_plans_the_role_and_its_settings(toy: Site) -> None:
    toyctl(toy, 4)
    done = toy.answer("setup", "--check")
    assert done.returncode in (0, 1), done.stderr
    assert "toy client" in done.stdout + done.stderr
    assert "read-ahead: 4 -> 16" in done.stdout
    assert not (toy.directory / "told").exists()


def test_a_job_runs_on_the_scheduler(toy: Site) -> None:
    submitted = toy.run("submit", "--", "sh", "-c", 'echo "$TOY_GREETING, $GRIDWRIGHT_DATA"')
    toy.run("wait", submitted.strip())
    (job,) = toy.json("jobs")["jobs"]
    assert job["state"] == "completed"
    assert toy.run("logs", job["id"]) == f"good morning, {toy.directory}/shelf/data\n"
    refused = toy.answer("submit", "--after", job["id"], "--nice", "3", "--", "true")
    assert refused.returncode == 2
    assert "scheduler toy has no nice for a job" in refused.stderr
    assert "scheduler toy starts no job after ok: only after nothing" in refused.stderr
    untold = toy.answer("usage")
    assert untold.returncode == 2
    assert "scheduler toy keeps no accounting that Gridwright reads" in untold.stderr


def test_iotest_and_report(toy: Site) -> None:
    toy.run("iotest", "--size", "4MiB", "--seconds", "1", "--streams", "1")
    runs: Sequence[dict[str, Any]] = toy.json("runs", "list")["runs"]
    assert [each["status"] for each in runs] == ["complete"]
    toy.run("report", runs[0]["run"])
    assert list(toy.directory.glob("runs/*/report.html"))


def test_a_broken_extension_is_named_and_hurts_no_other_command(tmp_path: Path) -> None:
    site = at(environment_with(tmp_path / "venv", HERE, HERE / "broken"), tmp_path)
    assert site.json("check")["ok"] is True
    schema = site.answer("schema")
    assert "toyfs" in schema.stdout
    assert "package gridwright-broken cannot be used" in schema.stderr
    assert "Gridwright has one of that name itself" in schema.stderr
    assert "pi has no spec_model and no open" in schema.stderr
    text = (tmp_path / "grid.yaml").read_text()
    (tmp_path / "broken.yaml").write_text(text.replace("type: toyfs", "type: brokenfs"))
    done = site.answer("check", "broken.yaml")
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    for said in ("brokenfs", "gridwright-broken", "module_that_nobody_has"):
        assert said in done.stderr


def test_an_extension_that_fails_while_it_is_used_is_named(toy: Site) -> None:
    (toy.directory / "boxes").write_text("a file where the box should be")
    done = toy.answer("up")
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    assert "package gridwright-toy failed" in done.stderr


def test_a_built_in_name_cannot_be_taken(tmp_path: Path) -> None:
    site = Site(environment_with(tmp_path / "venv", HERE / "broken"), tmp_path)
    site.run("init", "--provider", "aws", "grid.yaml")
    assert site.json("check")["ok"] is True


def test_the_document_shows_the_package_as_it_is() -> None:
    document = (HERE.parents[1] / "docs" / "extending.md").read_text()
    parts = re.findall(r"^```(?:python|toml|yaml)\n(.*?)^```", document, re.S | re.M)
    parts = [part for part in parts if not part.startswith("name: toys")]
    shown = [each for suffix in ("py", "yaml", "yml") for each in HERE.glob(f"gridwright_toy/**/*.{suffix}")]
    sources = [each.read_text() for each in [*shown, HERE / "pyproject.toml"]]
    whole = "\n".join(_lines(source) for source in sources)
    assert len(parts) > 9
    assert [part for part in parts if _lines(part) not in whole] == []


def _lines(text: str) -> str:
    """The text without empty lines and margins: a document shows methods without those of their class."""
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())
