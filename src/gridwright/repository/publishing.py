"""Tells other machines, by the manifest, what this one knows: rows, and which library has which file.

Who publishes holds the lease of the repository, and has learned what others published since it got that.
"""

from __future__ import annotations

import os
import secrets
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from gridwright.errors import input_error
from gridwright.repository.content import FileContent
from gridwright.repository.keys import MANIFEST
from gridwright.repository.known import LIBRARY, Known
from gridwright.repository.known_file import KnownFile
from gridwright.repository.manifest import EXPORTED_OF, readable_rows, write_manifest
from gridwright.repository.settings import OpenRepository, RepositoryReport
from gridwright.repository.state_failures import state_failure

_WRITTEN = "manifest written"
NAMES = "is_name_only <> 0 AND inode = 0"
"""Rows of names that no file here has."""
_MOST_LIBRARIES = 16


def library_of(known: Known) -> str:
    """The identifier of the library, on all machines that have it; of this machine's where it has none."""
    found = known.state.library or known.fact(LIBRARY)
    if not found:
        found = secrets.token_hex(16)
        known.set_fact(LIBRARY, found)
    return found


def learn_moments(known: Known, facts: Mapping[str, str], libraries: Collection[str]) -> None:
    """Learn from the facts of a manifest when each library was last exported as a whole.

    Earlier releases wrote one moment, of whichever library had exported; it is this library's where
    `libraries`, those that the manifest's rows name, are no others. Raises GridwrightError.
    """
    own = library_of(known)
    mine = {EXPORTED_OF + each for each in (own, *known.former_libraries)}
    found = {name: when for name, when in facts.items() if name.startswith(EXPORTED_OF) and when}
    if not found and facts.get("exported") and set(libraries) == {own}:
        found = {EXPORTED_OF + own: facts["exported"]}
    for name, when in found.items():
        fact = "exported" if name in mine else name
        if float(when) > (known.moment(fact) or 0.0):
            known.set_fact(fact, when)


def _moments(known: Known) -> dict[str, str]:
    """When each library was last exported as a whole, the latest ones."""
    query = "SELECT name FROM facts WHERE substr(name, 1, ?) = ?"
    names = known.database.execute(query, (len(EXPORTED_OF), EXPORTED_OF)).fetchall()
    found = {name: known.moment(name) or 0.0 for (name,) in names}
    if when := known.moment("exported"):
        found[EXPORTED_OF + library_of(known)] = when
    latest = sorted(found, key=lambda name: found[name], reverse=True)
    return {name: repr(found[name]) for name in latest[:_MOST_LIBRARIES]}


def published_rows(known: Known) -> Iterator[KnownFile]:
    """The rows as others are to know them: each with the libraries that have its file."""
    own, has_newer, has_leaving = library_of(known), bool(known.newer), bool(known.leaving)
    for row in known.rows():
        newer = known.newer.get(row.path) if has_newer else None
        if newer is not None and newer.is_later(row):
            yield newer
            continue
        others = row.other_libraries(own)
        is_here = bool(row.inode) or (own in row.libraries and not row.is_only_in_bucket)
        if is_here and not (has_leaving and row.path in known.leaving):
            others.insert(0, own)
        yield replace(row, libraries=" ".join(others[:_MOST_LIBRARIES]))


def publish_manifest(opened: OpenRepository, report: RepositoryReport) -> None:
    """Write the manifest from what is known, and send it; what it cannot have is named.

    Raises GridwrightError.
    """
    known = opened.known
    facts = {"exported": known.fact("exported") or "", "written": repr(time.time()), **_moments(known)}
    file = known.state.path / f"{MANIFEST}.{os.getpid()}.part"
    try:
        rows = readable_rows(
            published_rows(known),
            lambda row, why: report.problem(row.path, f"it is not in the manifest: {why}"),
        )
        write_manifest(file, rows, facts)
        with file.open("rb") as content:
            sent = opened.store.send(opened.keys.own(MANIFEST), FileContent(content.fileno()), {}).result()
        known.set_fact("manifest", sent.etag)
        _keep_published(known, facts["written"])
    except OSError as error:
        raise state_failure(error, file, what="the manifest") from error
    finally:
        file.unlink(missing_ok=True)


def keep_dropped(known: Known, published: str, written: str) -> None:
    """Keep which names a manifest lacks, that another machine wrote later than the one before.

    `published` is the table of this run that has its paths. An older one, which somebody has set back, says
    nothing.
    """
    if not _is_later(written, known.fact(_WRITTEN)):
        return
    known.flush()
    with known.transaction():
        known.database.execute("DELETE FROM dropped")
        known.database.execute(
            f"INSERT INTO dropped SELECT path FROM files WHERE {NAMES} "  # noqa: S608 - names of our own
            f"AND path NOT IN (SELECT path FROM {published})"
        )
    known.set_fact(_WRITTEN, written)


def _keep_published(known: Known, written: str) -> None:
    """Note that the manifest is one's own, which has all names."""
    known.database.execute("DELETE FROM dropped")
    known.set_fact(_WRITTEN, written)


def note_published(known: Known, paths: Iterable[bytes]) -> None:
    """Keep paths of a manifest, for this run."""
    known.database.executemany("INSERT OR IGNORE INTO published VALUES (?)", ((path,) for path in paths))


def _is_later(written: str, before: str | None) -> bool:
    """Whether a manifest says that it was written later than another one did."""
    try:
        return float(written) > float(before or 0.0)
    except ValueError:
        return False


def forget_library(known: Known, name: str) -> int:
    """Have the manifest name a library no more, which is gone for good; how many files it had by that.

    `name` is its identifier, or how that alone begins. Raises GridwrightError, with all that there are.
    """
    own, had = library_of(known), _libraries(known)
    found = [each for each in had if name and each.startswith(name)]
    if len(found) != 1 or found[0] == own:
        there = "; ".join(f"{each} has {count}" for each, count in sorted(had.items()) if each != own)
        raise input_error(
            "that is this library itself"
            if found == [own]
            else f"not one other library is called {name!a:.80}",
            where="--forget-library",
            remedy=f"by the manifest, of files: {there}" if there else "the manifest names no other library",
        )
    known.flush()
    for table in ("files", "newer"):
        query = f"UPDATE {table} SET libraries = trim(replace(' ' || libraries || ' ', ?, ' '))"  # noqa: S608
        known.database.execute(query, (f" {found[0]} ",))
    known.database.execute("DELETE FROM facts WHERE name = ?", (EXPORTED_OF + found[0],))
    return had[found[0]]


def _libraries(known: Known) -> Counter[str]:
    """The libraries that rows name, and how many each."""
    query = "SELECT libraries, count(*) FROM {} WHERE libraries <> '' GROUP BY 1"
    found = Counter[str]()
    for table in ("files", "newer"):
        for names, count in known.database.execute(query.format(table)):
            found.update(dict.fromkeys(names.split(), count))
    return found
