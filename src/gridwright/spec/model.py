"""The grid spec: pydantic models of grid.yaml, with what changing each field does to a live grid."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    model_validator,
)

from gridwright.spec.aws import Aws
from gridwright.spec.crosscheck import MAX_NODES, cross_problems, fill_defaults
from gridwright.spec.fields import Change, CoreRate, Directory, Name, Reason, SpecModel, Subdirectory, Update
from gridwright.spec.filesystem import AnyFileSystem, FileSystem
from gridwright.spec.findings import KNOWN
from gridwright.spec.hosts import HostSet, expand_hosts
from gridwright.spec.lab import Lab
from gridwright.spec.registry import Registry, choices
from gridwright.spec.requirements import Requirements
from gridwright.spec.scheduler import AnyScheduler, default_scheduler
from gridwright.yamltext.fields import Size
from gridwright.yamltext.together import validated_with

LibraryName = Literal["data", "work", "util"]

PROVIDERS: Registry[str] = Registry("provider")
"""Providers that a spec can name, with what they are."""
PROVIDERS.register("local")(
    "the machine that Gridwright runs on; with scheduler slurm, the nodes that it knows"
)
PROVIDERS.register("lab")("nodes in Linux namespaces of the machine that Gridwright runs on")
PROVIDERS.register("aws")("Amazon Web Services: nodes by EC2 instance type")
PROVIDERS.register("oci")("Oracle Cloud Infrastructure: nodes by shape")


def _provider(name: str) -> str:
    PROVIDERS.get(name)
    return name


_PLANNED = Update(Change.LIVE, "only planning reads it")


class NodeGroup(SpecModel):
    """Nodes that are alike."""

    count: Annotated[int, Update(Change.ROLLING, "nodes join or leave one at a time")] = Field(
        default=1,
        ge=1,
        le=MAX_NODES,
        description="How many nodes the group has. By default those that hosts names, or 1. With provider "
        "local, 1, unless the scheduler is slurm or hosts names more.",
    )
    hosts: Annotated[HostSet | None, Update(Change.ROLLING, "nodes join or leave one at a time")] = Field(
        default=None,
        description="Host names of a site's own nodes, as ssh reaches them, such as node[001-016]. "
        "With provider local only; others name their nodes by the group and a number.",
    )
    instance: Annotated[str | None, Update(Change.ROLLING, "nodes are replaced one at a time")] = Field(
        default=None,
        description="The instance type (aws) or shape (oci) of each node, such as m5n.8xlarge. "
        "Not with provider local or lab.",
    )
    cores: Annotated[int | None, Update(Change.ROLLING, "nodes are drained and set up one at a time")] = (
        Field(
            default=None,
            ge=1,
            le=4096,
            description="Physical cores of each node that jobs may use. By default those it has.",
        )
    )
    memory: Annotated[Size | None, Update(Change.ROLLING, "nodes are drained and set up one at a time")] = (
        Field(default=None, description="Memory of each node that jobs may use. By default what it has.")
    )

    def node_names(self, group: str) -> list[str]:
        """The names of its nodes: hosts as they are given, else the group's name and a number."""
        if self.hosts is not None:
            return expand_hosts(self.hosts)
        return [f"{group}{number}" for number in range(1, self.count + 1)]


class Library(SpecModel):
    """A role for data: where it lives, and what each core needs of it."""

    filesystem: Annotated[
        str, Update(Change.REBUILD, "the data have to be copied to the other file system")
    ] = Field(
        default="",
        description="The name, under filesystems, of the file system it lives on. By default the only one.",
    )
    requires: Annotated[CoreRate | None, Update(Change.LIVE, "only planning and proofs read it")] = Field(
        default=None,
        description="The rate that each physical core needs, such as 100 MB/s/core. "
        "Without one nothing is proven.",
    )
    path: Annotated[
        Subdirectory, Update(Change.REMOUNT, "jobs look for it at the new place; data stay at the old one")
    ] = Field(
        default="", description="Its directory, below the path of the file system. By default its own name."
    )
    capacity: Annotated[Size | None, Update(Change.LIVE, "only planning and checks read it")] = Field(
        default=None, description="The room it needs in all, such as 12 TiB."
    )


class GridSpec(SpecModel):
    """A grid, as grid.yaml describes it.

    Make one with `load_spec` or `parse_spec`. Sizes are Bytes, rates are Rate; the directory of a
    library on disk is `library_directory`.
    """

    name: Annotated[Name, Update(Change.REBUILD, "resources, directories and runs carry it")] = Field(
        default="grid", description="The name of the grid; runs and resources carry it."
    )
    provider: Annotated[
        str,
        AfterValidator(_provider),
        Update(Change.NEVER, "a grid cannot move between providers; make another"),
    ] = Field(
        default="local",
        description="Who provides the nodes: local is the machine that Gridwright runs on.",
        json_schema_extra=choices(PROVIDERS),
    )
    region: Annotated[
        str | None, Update(Change.NEVER, "a grid cannot move between regions; make another")
    ] = Field(
        default=None,
        description="The region of the cloud, such as us-east-1: what is sold there, and its prices. "
        "Provider aws needs it.",
    )
    requirements: Annotated[Requirements | None, _PLANNED] = Field(
        default=None,
        description="What the grid must reach: `gridwright plan` searches the cheapest that does.",
    )
    nodes: Annotated[
        Mapping[Name, NodeGroup], Update(Change.ROLLING, "nodes join or leave one at a time")
    ] = Field(
        default_factory=lambda: {"compute": NodeGroup()},
        min_length=1,
        description="Groups of nodes that run jobs, by name. By default one node, in a group named compute.",
    )
    filesystems: Annotated[
        Mapping[Name, AnyFileSystem], Update(Change.REBUILD, "data live on them and have to be copied")
    ] = Field(
        default_factory=dict,
        description="The file systems that libraries live on, by name, "
        "such as disk: {type: local, path: /data}.",
    )
    libraries: Annotated[
        Mapping[LibraryName, Library],
        Update(Change.REMOUNT, "running jobs keep the libraries they started with"),
    ] = Field(
        default_factory=dict,
        description="The libraries data (permanent, shared), work (temporary tables) and util (spill of "
        "sorts and joins). By default all three, on the only file system, without requirements.",
    )
    scheduler: Annotated[AnyScheduler, Update(Change.REBUILD, "queued jobs are lost")] = Field(
        default_factory=default_scheduler, description="What starts jobs on nodes."
    )
    state: Annotated[
        Directory | None, Update(Change.REBUILD, "queued jobs and their logs stay at the old place")
    ] = Field(
        default=None,
        description="The directory for queued jobs, their logs and records, at the same place on all nodes. "
        "By default ~/.local/state/gridwright/NAME, and .gridwright on the file system of library data "
        "where there are several nodes.",
    )
    lab: Annotated[Lab | None, Update(Change.REBUILD, "its nodes are made anew")] = Field(
        default=None, description="What only provider lab has."
    )
    aws: Annotated[Aws | None, Update(Change.REBUILD, "network and machines are made anew")] = Field(
        default=None,
        description="What only provider aws has. render, up, status and down need it.",
    )
    silence: Annotated[Mapping[str, Reason], Update(Change.LIVE, "only checks read it")] = Field(
        default_factory=dict,
        description="Findings not to report: the name of each, and the reason why.",
        json_schema_extra={"propertyNames": {"enum": [*sorted(KNOWN)]}},
    )

    _file: Path | None = PrivateAttr(default=None)
    _source_text: str = PrivateAttr(default="")
    _groups: dict[str, NodeGroup] | None = PrivateAttr(default=None)

    @property
    def file(self) -> Path | None:
        """Absolute path of the file it was read from; None when it was not read from a file."""
        return self._file

    @property
    def source_text(self) -> str:
        """The text it was read from, as it was; empty when made from values."""
        return self._source_text

    @property
    def is_placed(self) -> bool:
        """Whether its libraries live on file systems; a spec yet to be planned says only what they need."""
        return bool(self.filesystems)

    @property
    def is_bought(self) -> bool:
        """Whether its nodes come out of a catalogue; those of providers local and lab are this machine."""
        return self.provider not in ("local", "lab")

    @property
    def is_one_machine(self) -> bool:
        """Whether it has no node but the machine that Gridwright runs on."""
        named = any(group.hosts is not None for group in self.nodes.values())
        return self.provider == "local" and self.scheduler.runs_on_one_machine and not named

    def filesystem_of(self, library: LibraryName) -> FileSystem:
        """The file system that a library lives on. Raises KeyError when the grid has no such library."""
        return self.filesystems[self.libraries[library].filesystem]

    def library_directory(self, library: LibraryName) -> Path:
        """Absolute directory of a library. Raises KeyError when the grid has no such library."""
        return self.filesystem_of(library).path / self.libraries[library].path

    def node_count(self) -> int:
        """Nodes of all groups."""
        return sum(group.count for group in self.nodes.values())

    def group_of(self, node: str) -> NodeGroup | None:
        """The group that a node belongs to by its name; None for names that the spec does not give."""
        if self._groups is None:
            self._groups = {
                each: group for name, group in self.nodes.items() for each in group.node_names(name)
            }
        return self._groups.get(node)

    @model_validator(mode="wrap")
    @classmethod
    def _whole(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:  # noqa: ANN401
        """Check what spans several fields together with the fields, so that all problems come at once."""
        if isinstance(data, cls):
            return data
        data = fill_defaults(data)
        return validated_with(cls, handler, data, cross_problems(data))
