"""The commands of Grid Engine on the head node: their environment and XML, and what their messages mean."""

from __future__ import annotations

import os
import re
from pathlib import Path
from xml.etree import ElementTree

from gridwright.errors import GridwrightError, environment_error
from gridwright.schedulers.batch.system import Answered, BatchTools
from gridwright.schedulers.grid_engine.section import GridEngineSection
from gridwright.schedulers.head_node import HeadNode, check_run

_NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def parse_answer(printed: bytes, command: str) -> ElementTree.Element:
    """The root of what a command printed. Raises GridwrightError (ENVIRONMENT) where it is no plain XML."""
    text = _NOT_IN_XML.sub("?", printed.decode("utf-8", errors="replace"))
    if "<!DOCTYPE" in text.upper() or "<!ENTITY" in text.upper():
        raise _unreadable(command, "it declares a document type")
    # As text it has one encoding, whatever its first line says.
    text = re.sub(r"^\s*<\?xml[^>]*\?>", "", text)
    try:
        return ElementTree.fromstring(text)  # noqa: S314 - without a document type there are no entities
    except ElementTree.ParseError as error:
        raise _unreadable(command, str(error)) from error


def _unreadable(command: str, why: str) -> GridwrightError:
    return environment_error(
        f"what {command} prints cannot be read as XML: {why}",
        remedy=f"run {command} -xml by hand, and see whether it is that of Grid Engine 6.2 or newer",
    )


def text_of(element: ElementTree.Element, path: str) -> str:
    """The text below an element; empty where there is none."""
    return (element.findtext(path) or "").strip()


_AWAY = (
    "commlib error",
    "unable to send message to qmaster",
    "unable to contact qmaster",
    "can't connect to service",
    "cannot reach qmaster",
)
_UNCLEAR = ("failed receiving gdi request", "got receive error", "sync receive timeout", "closing connection")
_ARCHITECTURES = ("lx-amd64", "lx-arm64", "lx-ppc64le", "lx-x86")
"""The directories of commands below SGE_ROOT/bin."""


def tools(section: GridEngineSection, head: HeadNode) -> BatchTools:
    """The commands, as the section finds them. Raises as `check_run`."""
    # qsub, qstat and qacct tell and take times of the zone they are run in; lists stay in one line.
    environment = dict(os.environ) | {"LC_ALL": "C", "TZ": "UTC", "SGE_SINGLE_LINE": "1"}
    if section.root is not None:
        places = [str(section.root / "bin" / architecture) for architecture in _ARCHITECTURES]
        remedy = "set SGE_ROOT and PATH in the shell that runs gridwright, without `root`"
        check_run(head, section.root, remedy, section.owner)
        for place in map(Path, places):
            for program in sorted(place.iterdir()) if place.is_dir() else ():
                check_run(head, program, remedy, section.owner)
        environment |= {"SGE_ROOT": str(section.root)}
        environment["PATH"] = ":".join([*places, environment.get("PATH", "/usr/bin:/bin")])
    if section.cell is not None:
        environment["SGE_CELL"] = section.cell
    return BatchTools(head, "Grid Engine", environment, meaning)


def meaning(said: str) -> Answered:
    """Whether a message says that sge_qmaster was not reached, or that it is not clear, or something else."""
    folded = said.lower()
    if any(each in folded for each in _UNCLEAR):
        return Answered.UNCLEAR
    return Answered.AWAY if any(each in folded for each in _AWAY) else Answered.YES
