"""A virtual environment that has a wheel of Gridwright, what the wheel asks for, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from importlib.util import cache_from_source
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
TOOLS = "cargo", "rustc", "cc", "gcc", "clang", "maturin"


def build_wheel(out: Path) -> Path:
    """Build the wheel of this checkout; what `make install` compiled is used again."""
    maturin = Path(sys.executable).with_name("maturin")
    command = [
        str(maturin),
        "build",
        "--release",
        "--locked",
        "--quiet",
        "--auditwheel",
        "skip",
        "--out",
        str(out),
    ]
    subprocess.run([ROOT / "packaging" / "carried.sh", sys.executable], check=True, timeout=60)
    subprocess.run(command, cwd=ROOT, check=True, timeout=900)
    (wheel,) = out.glob("*.whl")
    return wheel


def make_environment(place: Path, wheel: Path, *extras: str) -> Path:
    """Install a wheel and its requirements into a new environment, and return where its commands are.

    The requirements come out of the environment that runs the tests, as hard links where they can: no network
    is asked, and the releases are those of the lock file. pip says whether all that is asked for is there.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True, timeout=60)
    commands = place / "bin"
    pip = [sys.executable, "-m", "pip", "--quiet", "--python", str(commands / "python")]
    install = [*pip, "install", "--no-index", "--no-deps", "--no-compile", str(wheel)]
    subprocess.run(install, check=True, timeout=60)
    (packages,) = place.glob("lib/python*/site-packages")
    for name in required("gridwright", frozenset(extras)) - {"gridwright"}:
        link(name, packages)
    subprocess.run([*pip, "check"], check=True, timeout=60)
    return commands


def required(name: str, extras: frozenset[str]) -> set[str]:
    """A distribution and all that it asks for, however indirectly."""
    found: set[str] = set()
    asked = [(name, extras)]
    while asked:
        name, extras = asked.pop()
        found.add(name)
        for text in distribution(name).requires or ():
            need = Requirement(text)
            wanted = any(
                need.marker is None or need.marker.evaluate({"extra": extra}) for extra in {"", *extras}
            )
            if wanted and need.name not in found:
                asked.append((need.name, frozenset(need.extras)))
    return found


def link(name: str, packages: Path) -> None:
    """Put the files of a distribution into another environment, with what is compiled of them."""
    for file in distribution(name).files or ():
        if ".." in file.parts or "__pycache__" in file.parts:
            continue
        source, target = Path(str(file.locate())), packages / file
        _link_file(source, target)
        if source.suffix == ".py" and (compiled := Path(cache_from_source(str(source)))).exists():
            _link_file(compiled, target.parent / "__pycache__" / compiled.name)


def _link_file(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except FileExistsError:
        pass
    except OSError:
        shutil.copy2(source, target)


def lean_path(commands: Path) -> str:
    """A PATH of the environment alone; fails where a compiler is on it."""
    assert [each for each in TOOLS if shutil.which(each, path=str(commands))] == []
    return str(commands)
