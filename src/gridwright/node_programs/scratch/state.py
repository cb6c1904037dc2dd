"""The journal of what the program made and is about to make, written before each action.

`made` is what stands: by it a disk is known as ours. An intent is written, and flushed to disk, before the
first byte of a disk is changed; it has the UUIDs that are about to be written, so that a superblock of an
interrupted build is known as ours too. It goes when the file system is whole.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from gridwright.node_programs.scratch.problems import ScratchError, Trouble

SCHEMA = 1


@dataclass(frozen=True)
class Build:
    """One array as it is made, or is to be."""

    name: str
    serials: tuple[str, ...]
    """In the order of the stripe."""
    md_uuid: str | None
    """None for a single disk, which needs no md."""
    filesystem_uuid: str
    format: str
    chunk_bytes: int
    at: str = ""
    """When, as ISO 8601 in UTC."""


@dataclass(frozen=True)
class State:
    """What is made and what is meant, by the name of the array."""

    made: Mapping[str, Build]
    intents: Mapping[str, Build]

    def with_intent(self, build: Build) -> State:
        """The state in which `build` is meant."""
        return replace(self, intents={**self.intents, build.name: build})

    def with_made(self, build: Build) -> State:
        """The state in which `build` stands, and nothing else is meant for its name."""
        intents = {name: intent for name, intent in self.intents.items() if name != build.name}
        return State({**self.made, build.name: build}, intents)


NOTHING = State({}, {})


def read_state(path: Path) -> State:
    """Read the state; an absent file is NOTHING. Raises ScratchError where it is not what was written."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            raise ValueError("of another schema")
        return State(_builds(data["made"]), _builds(data["intents"]))
    except FileNotFoundError:
        return NOTHING
    except OSError as error:
        raise ScratchError(Trouble(f"{path}: {error.strerror}")) from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        remedy = (
            f"move it away: mv {path} {path}.old; arrays that are whole are then found by their names, and "
            "disks of one that is not are refused until they are named with --wipe"
        )
        raise ScratchError(Trouble(f"{path} is not what gridwright wrote there: {error}", remedy)) from None


def _builds(data: Any) -> Mapping[str, Build]:  # noqa: ANN401 - what JSON holds
    builds = [Build(**{**each, "serials": tuple(each["serials"])}) for each in data]
    for build in builds:
        texts = (build.name, build.filesystem_uuid, build.format, build.at, *build.serials)
        if not all(isinstance(text, str) for text in texts) or not isinstance(
            build.md_uuid, (str, type(None))
        ):
            raise TypeError(f"an array of it has fields of another kind: {build.name}")
    return {build.name: build for build in builds}


def write_state(path: Path, state: State) -> None:
    """Write whole or not at all, and through to the disk. Raises OSError."""
    document = {
        "schema": SCHEMA,
        "made": [asdict(build) for build in state.made.values()],
        "intents": [asdict(build) for build in state.intents.values()],
    }
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    temporary = path.with_name(f".{path.name}.part")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(json.dumps(document, indent=2) + "\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
