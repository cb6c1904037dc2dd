"""An import as a whole: what needs no content first, then contents where they belong to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gridwright.repository.contents import ContentOptions, import_contents
from gridwright.repository.export import Progress
from gridwright.repository.importing import ImportOptions, import_names
from gridwright.repository.settings import OpenRepository, RepositoryReport

Ended = Callable[[OpenRepository, RepositoryReport], None]


def import_objects(
    opened: OpenRepository,
    options: ImportOptions,
    *,
    restore: str | None = None,
    progress: Progress = lambda _bytes: None,
    ended: Ended = lambda _opened, _report: None,
) -> RepositoryReport:
    """Make files of what was created or changed in the bucket. Raises GridwrightError.

    Contents come where the file system does not hold back who reads a name, and where they are asked for.
    `restore` is as in `ContentOptions`; `ended` is called with the report of each half.
    """
    has_contents = options.contents or not opened.is_guarded
    names = import_names(opened, replace(options, contents=has_contents))
    ended(opened, names)
    if not has_contents:
        return names
    wanted = ContentOptions(options.paths, options.prefer, options.dry_run, restore)
    contents = import_contents(opened, wanted, progress)
    ended(opened, contents)
    contents.verb = names.verb
    contents.done = {**names.done, **{name: each for name, each in contents.done.items() if each.count}}
    names.failed.take(contents.failed)
    contents.failed = names.failed
    contents.notes = names.all_notes + contents.notes
    contents.seconds += names.seconds
    times = (names.at_least_s, contents.at_least_s)
    contents.at_least_s = None if None in times else sum(each for each in times if each is not None)
    return contents
