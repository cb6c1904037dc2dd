"""What is wrong between repositories and the rest of a grid spec, as plain data.

What is wrong with a repository that a file system carries by jobs, which somebody starts.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from gridwright.errors import nearest
from gridwright.spec.fields import mapping_of
from gridwright.spec.filesystem import FileSystem, filesystem_kind_in
from gridwright.spec.provider import ProviderKind
from gridwright.spec.repository import (
    BUCKET_PATTERN,
    NAMESPACED_SCHEME,
    NEVER,
    NamespacedPlace,
    Schedule,
    is_bucket,
    read_schedule,
    scheme_of,
)
from gridwright.units import UnitError
from gridwright.yamltext.fields import FieldError, read_duration
from gridwright.yamltext.source import show

LEAST_LETTERS = 3
"""Of a bucket's name (Amazon S3 User Guide, bucket naming rules)."""
_Wrong = Iterator[tuple[tuple[str, ...], FieldError]]


def unlinked_bucket(name: str, section: Mapping[str, Any], linked_scheme: str, by_itself: int) -> _Wrong:
    """A bucket, or a field, that is only for links by jobs, where there is none.

    `linked_scheme` is how buckets begin that the file system links by itself, empty where it links none;
    `by_itself` how many it can link of this repository's kind.
    """
    if by_itself and linked_scheme == NAMESPACED_SCHEME:
        return
    bucket = section.get("bucket")
    if isinstance(bucket, str) and scheme_of(bucket) == NAMESPACED_SCHEME and is_bucket(bucket):
        yield (
            ("repositories", name, "bucket"),
            FieldError(
                f"{bucket} is linked by Oracle's managed Lustre alone, and the library is on none",
                f"this file system links buckets of {linked_scheme}:// alone: name a library on another one"
                if linked_scheme
                else _as_s3(NamespacedPlace.parse(bucket)),
            ),
        )
    elif section.get("overwrite") is True:
        yield (
            ("repositories", name, "overwrite"),
            FieldError(
                "only jobs of Oracle's managed Lustre take it: gridwright repo compares both sides",
                "remove the field; --prefer says which side wins where both were changed",
            ),
        )


def _as_s3(place: NamespacedPlace) -> str:
    """How Gridwright itself reaches the bucket, by the dialect of S3 that Object Storage speaks.

    Names there may have capitals and underscores, which names of S3 have not.
    """
    prefix = f"/{place.prefix}" if place.prefix else ""
    bucket, before = place.bucket, ""
    if not re.fullmatch(BUCKET_PATTERN, f"s3://{bucket}", re.ASCII):
        bucket = re.sub(r"[^a-z0-9.-]", "-", bucket.lower())[:63].strip(".-")
        bucket = bucket if len(bucket) >= LEAST_LETTERS else "grid-data"
        before = (
            f"no bucket of s3:// is called {place.bucket}: make one of 3 to 63 small letters, digits, "
            f"dots and hyphens, such as {bucket}, copy the objects there, and "
        )
    address = f"https://{place.namespace}.compat.objectstorage.REGION.oraclecloud.com"
    return f"{before}write s3://{bucket}{prefix} and endpoint: {address}, with the bucket's region"


def job_link_problems(name: str, section: Mapping[str, Any], kind: str) -> _Wrong:
    """Schedules, deletions and a store's address, which such a link has nothing for; an rpo out of reach."""
    for plan, field, verb in (("export", "changed", "export"), ("import", "names", "import")):
        written = section.get(plan)
        fields = written if isinstance(written, Mapping) else {}
        if fields.get(field, NEVER) != NEVER:
            yield (
                ("repositories", name, plan, field),
                FieldError(
                    f"a file system of type {kind} copies when a job is started, not by time and not at once",
                    f"remove the field, and have cron run gridwright repo {verb} {name}",
                ),
            )
        if fields.get("deletions") is True:
            yield (
                ("repositories", name, plan, "deletions"),
                FieldError(
                    f"jobs of a file system of type {kind} delete nothing on the other side",
                    "remove the field, and delete on both sides yourself",
                ),
            )
    if section.get("endpoint") is not None:
        yield (
            ("repositories", name, "endpoint"),
            FieldError(
                "the file system reaches the bucket by itself, in its own region and tenancy",
                "remove the field",
            ),
        )
    if section.get("rpo") is not None and section.get("overwrite") is not True:
        yield (
            ("repositories", name, "rpo"),
            FieldError(
                "jobs pass over changed files whose objects are there already, so that no rpo holds",
                "write overwrite: true, or remove rpo",
            ),
        )


@dataclass(frozen=True, slots=True)
class _Place:
    """Where files and objects of a repository are; empty texts are not known."""

    path: tuple[str, ...]
    """Of the problem in the spec."""
    what: str
    filesystem: str
    directory: str
    """Of the file system: `/data`."""
    bucket: str
    """One that can be read."""
    is_own: bool = False
    """Whether the section of its file system says so."""


def repository_problems(data: Mapping[str, Any], provider: ProviderKind | None) -> _Wrong:
    """Unknown libraries, one within another, a bucket twice, and schedules that nothing can keep.

    Values that cannot be read are passed over; the models tell of them.
    """
    written = mapping_of(data, "repositories")
    sections = {str(name): each for name, each in written.items() if isinstance(each, Mapping)}
    filesystems = mapping_of(data, "filesystems")
    libraries = mapping_of(data, "libraries")
    places = list(_own_links(filesystems)) if sections else []
    linked: dict[str, list[str]] = {}
    archives: dict[tuple[str, int], str] = {}
    for name, section in sections.items():
        library = section.get("library")
        if isinstance(library, str) and library not in libraries:
            yield from _no_library(name, library, libraries)
            continue
        below = libraries.get(str(library))
        filesystem = below.get("filesystem") if isinstance(below, Mapping) else None
        place = _place(name, section, below if isinstance(below, Mapping) else {}, filesystem)
        for other in places:
            yield from _overlapping(place, other)
        places.append(place)
        kind = filesystem_kind_in(filesystems.get(filesystem)) if isinstance(filesystem, str) else None
        if kind is None or filesystem is None:
            continue
        model = kind.spec_model
        on_cloud = provider is None or provider.is_cloud
        most_links = model.most_links if on_cloud else 0
        by_itself = most_links if scheme_of(place.bucket) == model.link_scheme else 0
        unlinked = [*unlinked_bucket(name, section, model.link_scheme if most_links else "", by_itself)]
        yield from unlinked
        if by_itself and model.links_by_job:
            yield from job_link_problems(name, section, str(filesystems[filesystem].get("type")))
        elif not unlinked:
            yield from _schedules(name, section, str(filesystems[filesystem].get("type")), by_itself)
        if by_itself and model.linked_hosts:
            yield from _other_store(name, section, str(filesystems[filesystem].get("type")), model)
        if _plan(section, "export").get("by") == "changelog":
            yield from _changelogs(name, filesystems[filesystem], model)
        archive = section.get("hsm_archive", 1)
        if model.has_copytool and isinstance(archive, int):
            first = archives.setdefault((filesystem, archive), name)
            yield from _same_archive(name, first)
        if by_itself:
            linked.setdefault(filesystem, []).append(name)
        if model.is_node_local and _nodes(data) > 1:
            yield (
                ("repositories", name, "library"),
                FieldError(
                    f"each node has a library {library} of its own, on its own disks: there is no one place "
                    "whose files a bucket could have",
                    "name a library that all nodes share, or remove the repository",
                ),
            )
    for filesystem, names in linked.items():
        yield from _links(filesystem, filesystems[filesystem], names)
        yield from _exports(filesystem, filesystems[filesystem], {name: sections[name] for name in names})


def _other_store(name: str, section: Mapping[str, Any], kind: str, model: type[FileSystem]) -> _Wrong:
    """A store that the file system does not go to: it would link the bucket of this name in its own one."""
    try:
        host = urlsplit(str(section.get("endpoint", ""))).hostname
    except ValueError:
        return
    if host and not host.endswith(model.linked_hosts):
        yield (
            ("repositories", name, "endpoint"),
            FieldError(
                f"a file system of type {kind} links buckets of its own cloud's store alone, and would take "
                f"that of the same name there, not at {host}",
                "remove the field, or name a library on another file system",
            ),
        )


def _same_archive(name: str, first: str) -> _Wrong:
    if name != first:
        yield (
            ("repositories", name, "hsm_archive"),
            FieldError(
                f"repository {first} of the same Lustre has this archive: agents cannot tell them apart",
                "write another number, such as hsm_archive: 2",
            ),
        )


def _changelogs(name: str, filesystem: Mapping[str, Any], model: type[FileSystem]) -> _Wrong:
    """Changelogs of servers that Gridwright's playbook reaches together with the nodes."""
    why = ""
    if not model.has_changelogs:
        why = f"a file system of type {filesystem.get('type')} keeps no changelogs"
    elif filesystem.get("source") is None:
        why = "servers that the provider builds are set up by themselves, and register nobody"
    if why:
        yield ("repositories", name, "export", "by"), FieldError(why, "write scan, or remove the field")


def _no_library(name: str, library: str, libraries: Mapping[str, Any]) -> _Wrong:
    known = [str(each) for each in libraries]
    if library in ("data", "work", "util"):
        near = nearest(library, known)
        remedy = f"did you mean {near}? " if near and len(known) > 1 else ""
        yield (
            ("repositories", name, "library"),
            FieldError(
                f"the grid has no library {show(library)}",
                f"{remedy}write {' or '.join(known)}, or add it under libraries",
            ),
        )


def _place(name: str, section: Mapping[str, Any], library: Mapping[str, Any], filesystem: object) -> _Place:
    path, below, bucket = section.get("path", "/"), library.get("path"), section.get("bucket")
    directory = ""
    is_readable = isinstance(path, str) and path.startswith("/") and ".." not in path.split("/")
    if is_readable and isinstance(path, str) and isinstance(below, str):
        directory = "/" + posixpath.normpath(posixpath.join("/", below, path.strip("/"))).strip("/")
    return _Place(
        ("repositories", name),
        f"repository {name}",
        filesystem if isinstance(filesystem, str) else "",
        directory,
        bucket if isinstance(bucket, str) and is_bucket(bucket) else "",
    )


def _own_links(filesystems: Mapping[str, Any]) -> Iterator[_Place]:
    """What sections of file systems link by themselves."""
    for name, section in filesystems.items():
        kind = filesystem_kind_in(section)
        for path, link in () if kind is None else kind.spec_model.written_links(section):
            directory, bucket = link.get("directory", "/"), link.get("bucket")
            yield _Place(
                ("filesystems", str(name), *path),
                f"the {path[0].removesuffix('s')} of file system {name}",
                str(name),
                posixpath.normpath(directory) if isinstance(directory, str) else "",
                bucket if isinstance(bucket, str) and is_bucket(bucket) else "",
                is_own=True,
            )


def _overlapping(place: _Place, other: _Place) -> _Wrong:
    if other.is_own and scheme_of(place.bucket) != scheme_of(other.bucket):
        # Gridwright may carry a part of what a file system copies to another place by its own section.
        return
    is_beside = place.filesystem != other.filesystem or not place.filesystem
    if not is_beside and place.directory and other.directory:
        relation = _relation(place.directory, other.directory)
        if relation:
            yield (
                (*place.path, "path"),
                FieldError(
                    f"its directory is {relation} that of {other.what}",
                    f"give each a directory of its own, or remove {other.what}",
                ),
            )
    mine, its = place.bucket.rstrip("/"), other.bucket.rstrip("/")
    relation = _relation(mine, its) if mine and its else ""
    if relation:
        scheme, _, rest = mine.partition("://")
        near = f"{scheme}://{rest.partition('/')[0]}/{place.path[1]}"
        instead = "give each a prefix of its own" if _relation(near, its) else f"write {near}"
        yield (
            (*place.path, "bucket"),
            FieldError(
                f"{mine} is {relation} the bucket and prefix of {other.what}: each would take objects of the "
                "other for its own",
                f"{instead}, or another bucket",
            ),
        )


def _relation(mine: str, other: str) -> str:
    """How one directory or prefix lies to another; empty where neither is within the other."""
    if mine == other:
        return "the same as"
    one, two = mine.rstrip("/") + "/", other.rstrip("/") + "/"
    return "within" if one.startswith(two) else "around" if two.startswith(one) else ""


def _plans(section: Mapping[str, Any]) -> dict[tuple[str, str], Schedule]:
    """What can be read of its schedules, by section and field."""
    found = {}
    for plan, field in (("export", "changed"), ("import", "names")):
        written = section.get(plan)
        try:
            if isinstance(written, Mapping) and field in written:
                found[plan, field] = read_schedule(written[field])
        except FieldError:
            continue
    return found


def _schedules(name: str, section: Mapping[str, Any], kind: str, by_itself: int) -> _Wrong:
    plans = _plans(section)
    for field, plan in plans.items():
        if plan.is_at_once and not by_itself:
            yield (
                ("repositories", name, *field),
                FieldError(
                    f"nothing tells of changes of file system type {kind} at once",
                    "write hourly, daily or a time such as 15m",
                ),
            )
        if plan.is_timed and by_itself and _plan(section, field[0]).get("deletions") is True:
            yield (
                ("repositories", name, field[0], "deletions"),
                FieldError(
                    f"a file system of type {kind} takes deletions along at once, and not by its tasks",
                    f"write {field[1]}: at-once, or remove deletions",
                ),
            )
    imported = section.get("import")
    if by_itself and isinstance(imported, Mapping) and imported.get("contents") is True:
        yield (
            ("repositories", name, "import", "contents"),
            FieldError(f"a file system of type {kind} loads contents when they are read", "remove the field"),
        )
    export = plans.get(("export", "changed"))
    rpo = _seconds(section.get("rpo"))
    if export is not None and export.period_s and rpo is not None and rpo <= export.period_s:
        yield (
            ("repositories", name, "rpo"),
            FieldError(
                f"changes that are exported {_often(export)} get older than {section['rpo']} before they are",
                f"write an rpo of {export.period_s / 1800:.12g}h, or export more often",
            ),
        )


def _plan(section: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = section.get(name)
    return found if isinstance(found, Mapping) else {}


def _often(schedule: Schedule) -> str:
    return schedule.text if schedule.text in ("hourly", "daily") else f"every {schedule.text}"


def _seconds(written: object) -> float | None:
    try:
        return None if written is None else read_duration(written)
    except (UnitError, FieldError):
        return None


def _links(filesystem: str, section: Mapping[str, Any], names: list[str]) -> _Wrong:
    """What a file system that links directories by itself cannot have beside."""
    kind = filesystem_kind_in(section)
    model: type[FileSystem] = kind.spec_model if kind is not None else FileSystem
    own = [*model.written_links(section)]
    count = len(names) + len(own)
    if count > model.most_links:
        yield (
            ("repositories", names[-1], "library"),
            FieldError(
                f"file system {filesystem} would be linked with {count} buckets, and {model.most_links} is "
                "the most that it can be",
                "link a directory further up with one bucket",
            ),
        )
    for field, why in model.not_with_links.items():
        value = section.get(field)
        if isinstance(value, int) and value > 0 and not own:
            yield ("filesystems", filesystem, field), FieldError(why, "write 0: the bucket is the backup")


def _exports(
    filesystem: str, section: Mapping[str, Any], repositories: Mapping[str, Mapping[str, Any]]
) -> _Wrong:
    """Exports by tasks beside those at once, and names that would be two repositories.

    Automatic export has to be off for tasks that export (Amazon FSx API Reference, DeleteFileSystem).
    """
    kind = filesystem_kind_in(section)
    own = {} if kind is None else dict(kind.spec_model.written_links(section))
    of_all = own.get(("repository",))
    what = "link" if of_all is None else "repository"
    exports = {
        name: _plans(repository).get(("export", "changed")) for name, repository in repositories.items()
    }
    at_once = next(
        (f"repository {name}" for name, schedule in exports.items() if schedule and schedule.is_at_once), ""
    )
    if of_all is not None and of_all.get("export_on", ["new"]):
        at_once = "its own section"
    for name, export in exports.items():
        if export is not None and export.is_timed and at_once:
            yield (
                ("repositories", name, "export", "changed"),
                FieldError(
                    f"file system {filesystem} exports at once for {at_once}, and takes no export by time "
                    "beside it",
                    "write at-once for all of its repositories, or for none",
                ),
            )
        if name == filesystem and any(_is_all(path, link) for path, link in own.items()):
            yield (
                ("repositories", name),
                FieldError(
                    f"the {what} in the section of file system {filesystem} has this name, too",
                    f"call it {name}-files, or write the other one under repositories",
                ),
            )


def _is_all(path: tuple[str, ...], link: Mapping[str, Any]) -> bool:
    """Whether a link of the section has the name of its file system: its only one, or that of all of it."""
    return len(path) == 1 or str(link.get("directory", "/")).strip("/") == ""


def _nodes(data: Mapping[str, Any]) -> int:
    """How many nodes the groups have, as far as that is written."""
    groups = mapping_of(data, "nodes").values()
    counts = [group.get("count", 1) for group in groups if isinstance(group, Mapping)]
    return sum(count for count in counts if isinstance(count, int))
