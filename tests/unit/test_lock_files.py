"""The lock files agree: what is installed is what was tested."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
REQUIREMENTS = ROOT / "requirements"


def pinned(lock: str) -> set[tuple[str, str]]:
    """Name and release of each package of a lock file; one may stand there for each of several Pythons."""
    text = (REQUIREMENTS / lock).read_text()
    return {(name.lower(), release) for name, release in re.findall(r"(?m)^([\w.-]+)==([\w.]+)", text)}


def test_what_runs_is_pinned_as_it_was_tested() -> None:
    run, development = pinned("run.lock"), pinned("dev.lock")
    assert run - development == set(), "run make lock"
    assert {"pytest", "mypy", "playwright"} & {name for name, _ in run} == set()


def test_all_that_the_package_asks_for_is_pinned_for_those_who_install_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    asked = [*project["dependencies"], *extras["workload"], *extras["aws"]]
    names = {re.split(r"[\[<>=!~ ]", each)[0].lower().replace(".", "-") for each in asked}
    assert len(names) > 20
    assert names - {name for name, _ in pinned("run.lock")} == set(), "run make lock"
