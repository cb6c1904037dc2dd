"""The grid spec: pydantic models of grid.yaml, with what changing each field does to a live grid.

What stands above reports of a grid: the section `report` of the grid spec.

Sections of a grid spec that belong to its provider: validated by the provider's own model.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PlainValidator,
    PrivateAttr,
    SerializeAsAny,
    ValidationError,
    ValidationInfo,
    WithJsonSchema,
    create_model,
    model_validator,
)
from pydantic_core import InitErrorDetails

from gridwright.spec.crosscheck import MAX_NODES, cross_problems, fill_defaults, libraries_without_filesystem
from gridwright.spec.fields import Change, Directory, Name, Reason, SpecModel, Update
from gridwright.spec.filesystem import AnyFileSystem, FileSystem
from gridwright.spec.findings import known_findings
from gridwright.spec.hosts import HostSet, group_names
from gridwright.spec.library import Library
from gridwright.spec.machines import MachineGroup
from gridwright.spec.monitoring import MonitoringField
from gridwright.spec.power import BOUGHT, IDLE_S, POWERED, MaxPrice, Reservation
from gridwright.spec.provider import PROVIDERS, ProviderKind, ProviderSection, provider_in
from gridwright.spec.repository import DirectoryLink, LibraryRepository, scheme_of
from gridwright.spec.requirements import Requirements, Workload
from gridwright.spec.scheduler import AnyScheduler, default_scheduler
from gridwright.spec.site_setup import SiteSetup
from gridwright.spec.users import Users
from gridwright.yamltext.fields import Duration, FieldError, Size
from gridwright.yamltext.source import show
from gridwright.yamltext.structure import Model, placed, validated_with

T = TypeVar("T")


def with_sections(
    handler: Callable[[Any], T],
    data: Mapping[str, Any],
    fields: Collection[str],
    context: Any,  # noqa: ANN401 - pydantic's
) -> T:
    """What `handler` makes of plain data whose provider's section was made a model of its own.

    `fields` are those of every spec. What stands under another key is a field that does not exist, unless it
    is the section of another provider, which the cross-checks report. Raises ValidationError.
    """
    read: dict[str, Any] = {name: data[name] for name in data if name in fields}
    errors: list[InitErrorDetails] = []
    for name in data.keys() - read.keys():
        section = _section(name)
        if section is None:
            errors.append(InitErrorDetails(type="extra_forbidden", loc=(name,), input=data[name]))
        elif data[name] is not None and _is_meant(name, data):
            try:
                read[name] = section.model.model_validate(data[name], context=context)
            except ValidationError as error:
                errors += placed(error, name)
    try:
        made = handler(read)
    except ValidationError as error:
        raise ValidationError.from_exception_data(error.title, [*placed(error), *errors]) from None
    if errors:
        raise ValidationError.from_exception_data("sections", errors)
    return made


def _section(name: object) -> ProviderSection | None:
    return PROVIDERS.get(name).section if name in PROVIDERS.names() else None


def _is_meant(name: str, data: Mapping[str, Any]) -> bool:
    """Whether it is the section of the grid's provider, or may be, where that is not known."""
    provider = provider_in(data)
    return provider is None or provider.name == name


LONGEST = 120
"""Characters of a line that fits into the head of a page."""
_PRINTED = Update(Change.LIVE, "only reports print it")


def _line(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise FieldError(f"a line of text is wanted, and {show(value)} is given", "write it in a few words")
    text = value.strip()
    if not text.isprintable():
        raise FieldError("more than one line, or a character that cannot be printed", "write one line")
    if len(text) > LONGEST:
        raise FieldError(f"{len(text)} characters, and {LONGEST} fit into the head of a page", "shorten it")
    return text


Line = Annotated[
    str, PlainValidator(_line), WithJsonSchema({"type": "string", "minLength": 1, "maxLength": LONGEST})
]
"""One line of text, as people read it."""


class ReportHeading(SpecModel):
    """Title, site and customer, as reports of runs, predictions and plans have them in their head."""

    title: Annotated[Line | None, _PRINTED] = Field(
        default=None, description="The title of reports, such as Proof of the new grid."
    )
    site: Annotated[Line | None, _PRINTED] = Field(
        default=None, description="Where the grid stands, such as Hall 2, Karlsruhe."
    )
    customer: Annotated[Line | None, _PRINTED] = Field(
        default=None, description="For whom it was built or proven."
    )

    def lines(self) -> dict[str, str]:
        """What is given, by the names of the fields."""
        given = {"title": self.title, "site": self.site, "customer": self.customer}
        return {name: text for name, text in given.items() if text}


LibraryName = Literal["data", "work", "util"]

S = TypeVar("S", bound=SpecModel)


def _provider(name: str) -> str:
    PROVIDERS.get(name)
    return name


def _provider_names(schema: dict[str, Any]) -> None:
    """Put the names of providers into the JSON Schema, as they are when it is made."""
    schema["enum"] = PROVIDERS.names()


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
        "With providers local and site only; others name their nodes by the group and a number.",
    )
    instance: Annotated[
        str | None, Update(Change.ROLLING, "nodes are replaced, each when its jobs have ended")
    ] = Field(
        default=None,
        description="The instance type (aws) or shape (oci) of each node, such as m5n.8xlarge. "
        "Not with providers whose machines stand in no catalogue: local, lab, azure, google.",
    )
    cores: Annotated[int | None, Update(Change.LIVE, "the scheduler learns it; jobs go on")] = Field(
        default=None,
        ge=1,
        le=4096,
        description="Physical cores of each node that jobs may use. By default those it has.",
    )
    memory: Annotated[Size | None, Update(Change.LIVE, "the scheduler learns it; jobs go on")] = Field(
        default=None, description="Memory of each node that jobs may use. By default what it has."
    )
    min: Annotated[int | None, POWERED] = Field(
        default=None,
        ge=0,
        description="How many of its nodes are always on, the first ones, such as 2. The others, up to "
        "count, are powered on when jobs wait, and off when they are idle. By default all are always on.",
    )
    idle: Annotated[Duration | None, POWERED] = Field(
        default=None,
        description="How long a node that is not always on stays on without a job: 10 min by default.",
    )
    spot: Annotated[bool | MaxPrice, BOUGHT] = Field(
        default=False,
        description="Whether its nodes are spot instances, which cost less and may be taken back at two "
        "minutes' notice; max_price names the most that is paid. Queues on them have to say spot: true.",
    )
    reservation: Annotated[Reservation | None, BOUGHT] = Field(
        default=None,
        description="The capacity that its nodes run in: the ID of a capacity reservation (cr-...), the ARN "
        "of a resource group of such, open (any that fits) or none. By default as open.",
    )

    @property
    def always_on(self) -> int:
        """How many of its nodes are always on."""
        return self.count if self.min is None else min(self.min, self.count)

    @property
    def idle_s(self) -> float:
        """How long a node that is not always on stays on without a job."""
        return IDLE_S if self.idle is None else self.idle

    def powered_names(self, group: str) -> list[str]:
        """The names of nodes that are powered on when jobs need them, and off again."""
        return self.node_names(group)[self.always_on :]

    def node_names(self, group: str) -> list[str]:
        """The names of its nodes: hosts as they are given, else the group's name and a number."""
        return group_names(group, self.hosts, self.count)


class GridSpec(SpecModel):
    """A grid, as grid.yaml describes it.

    Make one with `load_spec` or `parse_spec`. Sizes are Bytes, rates are Rate; the directory of a
    library on disk is `library_directory`. The provider's own section is `section`.
    """

    model_config = ConfigDict(extra="allow")
    # Sections of providers; `_whole` lets nothing else in.
    __pydantic_extra__: dict[str, SerializeAsAny[SpecModel]]

    name: Annotated[Name, Update(Change.REBUILD, "resources, directories and runs carry it")] = Field(
        default="grid", description="The name of the grid; runs and resources carry it."
    )
    provider: Annotated[
        str,
        AfterValidator(_provider),
        Update(Change.NEVER, "a grid cannot move between providers; make another"),
    ] = Field(
        default="local",
        description="Who provides the nodes: local is the machine that Gridwright runs on, site a site "
        "with its own machines and scheduler.",
        json_schema_extra=_provider_names,
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
    machines: Annotated[
        Mapping[Name, MachineGroup], Update(Change.ROLLING, "machines are made or removed")
    ] = Field(
        default_factory=dict,
        description="Groups of machines beside the nodes, by name, such as {meta: {instance: r6i.2xlarge}}: "
        "in the same network, with the same mounts and settings, and without the scheduler. They count as no "
        "cores of the grid, and predictions leave out what they read and write.",
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
    repositories: Annotated[
        Mapping[Name, LibraryRepository], Update(Change.LIVE, "files and objects stay where they are")
    ] = Field(
        default_factory=dict,
        description="Directories of libraries whose files are objects of a bucket, too, by name, such as "
        "archive: {library: data, bucket: s3://site/prod, export: {changed: hourly}}. By default none.",
    )
    workload: Annotated[Workload | None, Update(Change.LIVE, "only proofs read it")] = Field(
        default=None,
        description="What the mixed workload must reach, such as {requires: {ratio: 0.9}}. "
        "Without it nothing is proven of the workload.",
    )
    report: Annotated[ReportHeading, Update(Change.LIVE, "only reports print it")] = Field(
        default_factory=ReportHeading,
        description="What stands above reports, such as {title: Proof of the new grid, site: Karlsruhe}.",
    )
    setup: Annotated[SiteSetup, Update(Change.LIVE, "machines run the playbook in place")] = Field(
        default_factory=SiteSetup,
        description="A site's own roles of Ansible and variables, such as {after: [./roles/sas]}: setup, "
        "render and machines on AWS run them with Gridwright's own.",
    )
    users: Annotated[
        Users | None, Update(Change.LIVE, "machines run the playbook in place, and jobs go on")
    ] = Field(
        default=None,
        description="People of the grid: accounts with fixed numbers, a directory of users, and where their "
        "homes are. By default accounts are the site's.",
    )
    monitoring: MonitoringField
    scheduler: Annotated[AnyScheduler, Update(Change.REBUILD, "queued jobs are lost")] = Field(
        default_factory=default_scheduler, description="What starts jobs on nodes."
    )
    state: Annotated[
        Directory | None, Update(Change.REBUILD, "queued jobs and their logs stay at the old place")
    ] = Field(
        default=None,
        description="The directory for queued jobs, their logs and records, at the same place on all nodes. "
        "By default ~/.local/state/gridwright/NAME-MARK, where MARK stands for the directory of the grid "
        "spec, and .gridwright on the file system of library data where there are several nodes. Where users "
        "share it, root makes it: gridwright setup does.",
    )
    silence: Annotated[Mapping[str, Reason], Update(Change.LIVE, "only checks read it")] = Field(
        default_factory=dict,
        description="Findings not to report: the name of each, and the reason why.",
        json_schema_extra=lambda schema: schema.update(propertyNames={"enum": [*sorted(known_findings())]}),
    )

    _file: Path | None = PrivateAttr(default=None)
    _source_text: str = PrivateAttr(default="")
    _groups: dict[str, NodeGroup] | None = PrivateAttr(default=None)
    _unplaced: frozenset[str] = PrivateAttr(default=frozenset())

    @classmethod
    def variant(cls, data: Mapping[str, Any]) -> Model:
        """The model of all fields that may stand in a file, those of providers too."""
        return whole_model()

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
        """Whether it says of every library where it lives, and of every node what it is.

        A spec yet to be planned leaves some of that to `gridwright plan`.
        """
        typed = not self.is_cloud or all(group.instance for group in self.nodes.values())
        return bool(self.filesystems) and typed and all(each.filesystem for each in self.libraries.values())

    @property
    def unplaced_libraries(self) -> frozenset[str]:
        """The libraries that name no file system, be there one or several: a plan may place them."""
        return self._unplaced

    @property
    def provider_kind(self) -> ProviderKind:
        """The provider, to be asked what the grid is like with it."""
        return PROVIDERS.get(self.provider)

    def section(self, model: type[S]) -> S | None:
        """The section of the grid's own provider, where the spec has it and it is of this model."""
        found = (self.model_extra or {}).get(self.provider)
        return found if isinstance(found, model) else None

    @property
    def is_cloud(self) -> bool:
        """Whether its nodes are bought by type, out of the catalogue."""
        return self.provider_kind.is_cloud

    @property
    def names_hosts(self) -> bool:
        """Whether a site's own nodes are named in it."""
        return any(group.hosts is not None for group in self.nodes.values())

    @property
    def is_one_machine(self) -> bool:
        """Whether it has no node but the machine that Gridwright runs on."""
        here = self.provider_kind.is_this_machine and self.scheduler.runs_on_one_machine
        return here and not self.names_hosts

    def filesystem_of(self, library: LibraryName) -> FileSystem:
        """The file system that a library lives on. Raises KeyError when the grid has no such library."""
        return self.filesystems[self.libraries[library].filesystem]

    def library_directory(self, library: LibraryName) -> Path:
        """Absolute directory of a library. Raises KeyError when the grid has no such library."""
        return self.filesystem_of(library).path / self.libraries[library].path

    def repository_directory(self, name: str) -> Path:
        """Absolute directory of a repository. Raises KeyError when the grid has none of that name."""
        found = self.repositories[name]
        return self.library_directory(found.library) / found.path.lstrip("/")

    def hsm_archive(self, repository: str) -> int | None:
        """The HSM archive whose agents bring a repository's contents; None where names are not released."""
        found = self.repositories[repository]
        is_own = self.filesystem_of(found.library).has_copytool and not self.is_linked(repository)
        return found.hsm_archive if is_own else None

    def links_of(self, filesystem: str) -> dict[str, DirectoryLink]:
        """The buckets that a file system links by itself, by repository; for its own see own_links."""
        links = dict(self.filesystems[filesystem].own_links)
        for name, each in self.repositories.items():
            if self.is_linked(name) and self.libraries[each.library].filesystem == filesystem:
                links[name] = each.as_link(self.libraries[each.library].path)
        return links

    def is_linked(self, repository: str) -> bool:
        """Whether the file system itself carries changes of a repository, and no program of Gridwright's."""
        found = self.repositories[repository]
        filesystem = self.filesystem_of(found.library)
        is_its = filesystem.most_links > 0 and scheme_of(found.bucket) == filesystem.link_scheme
        return self.is_cloud and is_its

    def node_count(self) -> int:
        """Nodes of all groups."""
        return sum(group.count for group in self.nodes.values())

    def machine_names(self) -> list[str]:
        """Machines beside the nodes, by name."""
        return [each for name, group in self.machines.items() for each in group.machine_names(name)]

    def powered_nodes(self) -> frozenset[str]:
        """Nodes that are powered on when jobs need them, of all groups."""
        return frozenset(each for name, group in self.nodes.items() for each in group.powered_names(name))

    def group_of(self, node: str) -> NodeGroup | None:
        """The group that a node belongs to by its name; None for names that the spec does not give."""
        if self._groups is None:
            self._groups = {
                each: group for name, group in self.nodes.items() for each in group.node_names(name)
            }
        return self._groups.get(node)

    @model_validator(mode="wrap")
    @classmethod
    def _whole(
        cls,
        data: Any,  # noqa: ANN401
        handler: ModelWrapValidatorHandler[Self],
        info: ValidationInfo,
    ) -> Self:
        """Check what spans several fields together with the fields, so that all problems come at once."""
        if isinstance(data, cls):
            return data
        if not isinstance(data, Mapping):
            return handler(data)
        unplaced = libraries_without_filesystem(data)
        data = fill_defaults(data)
        made = validated_with(
            cls,
            lambda whole: with_sections(handler, whole, cls.model_fields, info.context),
            data,
            cross_problems(data),
        )
        made._unplaced = unplaced
        return made


@cache
def whole_model() -> type[GridSpec]:
    """The model of grid.yaml with the sections of all providers, as if one grid could have all of them."""
    sections = {name: each.section.field for name, each in PROVIDERS.kinds() if each.section is not None}
    fields: Any = {name: (field.annotation, field) for name, field in sections.items()}
    return create_model(
        "GridSpec", __base__=GridSpec, __doc__=GridSpec.__doc__, __cls_kwargs__={"extra": "forbid"}, **fields
    )
