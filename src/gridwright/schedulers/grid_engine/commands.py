"""Grid Engine's section of a grid spec, and its commands on the head node: environment, XML, messages."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal
from xml.etree import ElementTree

from pydantic import Field

from gridwright.errors import GridwrightError, environment_error
from gridwright.schedulers.batch.system import Answered, BatchTools
from gridwright.schedulers.head_node import HeadNode, check_run
from gridwright.spec.fields import Directory, Name
from gridwright.spec.model import GridSpec
from gridwright.spec.scheduler import LATER_JOBS, REPLACED, SchedulerSection


class GridEngineSection(SchedulerSection):
    """A Grid Engine that is there already; in a lab, one that the lab sets up."""

    knows_nodes: ClassVar[bool] = True
    is_of_sites_alone: ClassVar[bool] = True
    needs_head_node: ClassVar[bool] = True
    job_options: ClassVar[frozenset[str]] = frozenset(
        {
            *("account", "reservation", "licences", "gres", "constraint", "begin", "nice", "mail"),
            *("stdin", "stdout", "stderr"),
        }
    )
    job_options_instead: ClassVar[Mapping[str, str]] = {
        "qos": "name a queue, with --queue, or a project in the spec: Grid Engine's policies go by these"
    }
    dependency_types: ClassVar[frozenset[str]] = frozenset({"ok", "any", "not-ok", "each"})

    type: Annotated[Literal["grid_engine"], REPLACED] = Field(
        description="The kind of scheduler: grid_engine is Grid Engine, there already or in a lab."
    )
    root: Annotated[Directory | None, LATER_JOBS] = Field(
        default=None,
        description="The directory of Grid Engine on the head node, as SGE_ROOT has it. By default that of "
        "the caller's environment, or what its commands were built with.",
    )
    owner: Annotated[str | None, LATER_JOBS] = Field(
        default=None,
        description="The account that root belongs to, such as sgeadmin, where that is not root's: it could "
        "run anything as whoever runs gridwright.",
    )
    cell: Annotated[Name | None, LATER_JOBS] = Field(
        default=None, description="The cell, as SGE_CELL has it. By default that of the caller's environment."
    )
    project: Annotated[str | None, LATER_JOBS] = Field(
        default=None, description="The project that jobs are charged to, as qsub -P has it."
    )
    queue: Annotated[str | None, LATER_JOBS] = Field(
        default=None,
        description="The queue of jobs that name none. By default the first of queues, where Grid Engine "
        "has it, else any.",
    )
    parallel_environment: Annotated[str, LATER_JOBS] = Field(
        default="smp",
        description="The parallel environment that gives a job several cores of one node; its allocation "
        "rule must be $pe_slots.",
    )
    memory: Annotated[str, LATER_JOBS] = Field(
        default="h_rss",
        description="The complex that jobs ask for memory with, such as h_rss, h_vmem or mem_free. Nodes run "
        "no more jobs than they have memory for where it is a consumable.",
    )


def section_of(spec: GridSpec) -> GridEngineSection:
    """The section of a spec whose scheduler is Grid Engine. Raises TypeError for another."""
    if not isinstance(spec.scheduler, GridEngineSection):
        raise TypeError(f"{spec.scheduler.type} is not grid_engine")
    return spec.scheduler


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
    return Answered.of_message(said, unclear=_UNCLEAR, away=_AWAY)
