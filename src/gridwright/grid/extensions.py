"""A site's own packages that a grid spec uses: their files go to nodes with Gridwright's own part."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from gridwright.spec import FILESYSTEMS, PROVIDERS, SCHEDULERS, GridSpec

MOST_BYTES = 32 << 20
"""Of one package and what it needs: every node gets them, over a line that may be slow."""
BESIDE = frozenset(
    {
        *("gridwright", "psutil", "tenacity"),
        *("pydantic", "pydantic-core", "annotated-types", "typing-inspection", "typing-extensions"),
    }
)
"""Distributions that the part has already."""
_COMPILED = re.compile(r"\.(so|pyd|dylib)(\.|$)")
_LEFT_OUT = frozenset({"__pycache__", "tests"})


class _NotBrought(Exception):
    """Why a package cannot be brought to nodes, in words that follow its name."""


@dataclass
class _Collected:
    """Files by their name in the archive, and the distributions they are of."""

    files: dict[str, bytes] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)


def extensions_of(spec: GridSpec) -> tuple[str, ...]:
    """Names of the site's packages that add what a spec uses, in order."""
    used = [PROVIDERS.extension(spec.provider), SCHEDULERS.extension(spec.scheduler.type)]
    used += [FILESYSTEMS.extension(filesystem.type) for filesystem in spec.filesystems.values()]
    return tuple(sorted({name for name in used if name is not None}))


def extension_versions(names: Sequence[str]) -> list[str]:
    """Each as NAME=VERSION: a node that has the same is given nothing."""
    return [f"{name}={distribution(name).version}" for name in names]


def extension_files(name: str) -> dict[str, bytes]:
    """The files of a package and of what it needs, by their names where packages are installed.

    What has compiled parts, or is too large, stands there with its entry points alone, and with a reason
    that whoever asks for its kinds on a node is told.
    """
    found = distribution(name)
    collected = _Collected()
    try:
        _collect(found, collected)
        if (size := sum(map(len, collected.files.values()))) > MOST_BYTES:
            raise _NotBrought(f"it takes {size >> 20} MiB with what it needs")
    except _NotBrought as reason:
        told = (
            f"{name} {found.version} is not brought to nodes: {reason}; install it there, beside Gridwright"
        )
        modules = {entry.module.partition(".")[0] for entry in found.entry_points}
        stub = f"raise ImportError({told!r})\n".encode()
        return {f"{module}/__init__.py": stub for module in sorted(modules)} | dict(_metadata(found))
    return collected.files


def _collect(found: Distribution, into: _Collected) -> None:
    """Add a distribution and what it needs. Raises _NotBrought."""
    into.names.add(_plain(found.name))
    into.files |= dict(_metadata(found))
    for place, path in _modules(found):
        if _COMPILED.search(path.name):
            raise _NotBrought(f"{place} of {found.name} is compiled for this Python")
        into.files[place] = path.read_bytes()
    for needed in _needs(found):
        if _plain(needed.name) not in into.names | BESIDE:
            _collect(needed, into)


def _needs(found: Distribution) -> Iterator[Distribution]:
    """What it needs that is here; extras, and what is for other systems, are not."""
    for requirement in found.requires or ():
        name = re.match(r"[A-Za-z0-9._-]+", requirement)
        if name is None or re.search(r";.*\bextra\b", requirement):
            continue
        try:
            yield distribution(name[0])
        except PackageNotFoundError:
            continue


def _modules(found: Distribution) -> Iterator[tuple[str, Path]]:
    """Its files where packages are installed; of one that is installed for editing, its packages."""
    listed = False
    for file in found.files or ():
        path = Path(str(file.locate()))
        inside = not {"..", *_LEFT_OUT}.intersection(file.parts) and file.suffix not in {".pyc", ".pth"}
        if inside and not file.parts[0].endswith((".dist-info", ".egg-info")) and path.is_file():
            listed = True
            yield file.as_posix(), path
    if listed:
        return
    for module in sorted({entry.module.partition(".")[0] for entry in found.entry_points}):
        yield from files_of(module)


def files_of(package: str) -> Iterator[tuple[str, Path]]:
    """Every file of an installed package, or of a module, by its name in the archive."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"no package {package}", name=package)
    if not spec.submodule_search_locations:
        yield Path(spec.origin).name, Path(spec.origin)
        return
    root = Path(spec.submodule_search_locations[0])
    for path in sorted(root.rglob("*")):
        inside = path.relative_to(root)
        if path.is_file() and not _LEFT_OUT.intersection(inside.parts):
            yield f"{package}/{inside}", path


def _metadata(found: Distribution) -> Iterator[tuple[str, bytes]]:
    """What makes its entry points and its version known."""
    home = f"{_plain(found.name).replace('-', '_')}-{found.version}.dist-info"
    for name in ("METADATA", "entry_points.txt"):
        if (text := found.read_text(name)) is not None:
            yield f"{home}/{name}", text.encode()


def _plain(name: str) -> str:
    """A name as package indices compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()
