"""What commands that make names do so that nobody reads zeros in the place of contents.

A directory that is being served: names are marked before anybody sees them. One that could be and is not: it
is closed to users until it is. On a Lustre of one's own: names are released files, of which Lustre holds
readers back. Anywhere else nothing can be done, and the command says so.
"""

from __future__ import annotations

import os

from gridwright.errors import GridwrightError
from gridwright.repository.copytool.released import ReleasedNames
from gridwright.repository.lazy import gate
from gridwright.repository.lazy.control import Marker, marker_of
from gridwright.repository.lazy.support import why_not


class NamesCover:
    """The cover of one repository's names, looked for when the first one is made."""

    def __init__(self, directory: str, root: int, archive_id: int | None = None) -> None:
        """`root` is the open directory, `archive_id` that of an own Lustre's HSM."""
        self._archive_id = archive_id
        self._released: ReleasedNames | None = None
        self._directory = directory
        self._root = root
        self._is_known = False
        self._marker: Marker | None = None
        self.why_not: str | None = None
        """Why names of this directory read as zeros until their contents are here; None where they do not."""

    @property
    def is_lazy(self) -> bool:
        """Whether contents come when they are read, now or as soon as somebody serves the directory."""
        self._find_out()
        return self.why_not is None

    @property
    def is_served(self) -> bool:
        """Whether contents come range by range when they are read now."""
        self._find_out()
        return self._marker is not None

    @property
    def released(self) -> ReleasedNames | None:
        """What makes names that are released files; None where names are no such files."""
        self._find_out()
        return self._released

    @property
    def is_closed(self) -> bool:
        """Whether users cannot enter, since nobody serves it."""
        return os.geteuid() == 0 and gate.is_closed(self._root)

    @property
    def attributes(self) -> tuple[int, int, int]:
        """Permissions, user and group of the directory, also while it is closed. Raises OSError."""
        return gate.attributes_of(self._root)

    def cover(self, descriptor: int) -> None:
        """See to it that nobody reads a name that is whole, and that nobody can see yet. Raises OSError."""
        self._find_out()
        if self._marker is not None:
            self._marker.mark(descriptor)
        elif self.why_not is None and self._released is None:
            gate.close(self._root)

    def load(self, descriptor: int) -> int:
        """Have what is missing of a file fetched, where it is served; the bytes that were. Raises OSError."""
        self._find_out()
        return self._marker.load(descriptor) if self._marker is not None else 0

    def uncover(self) -> None:
        """All contents are here: let users in. Raises OSError."""
        if os.geteuid() == 0:
            gate.open_again(self._root)

    def close(self) -> None:
        """Let go."""
        if self._marker is not None:
            self._marker.close()
            self._marker = None
            self._is_known = False

    def _find_out(self) -> None:
        if self._is_known:
            return
        self._is_known = True
        if self._archive_id is not None:
            try:
                self._released = ReleasedNames.of(self._archive_id)
            except GridwrightError as error:
                self.why_not = error.problems[0].what
            return
        self._marker = marker_of(self._directory) if os.geteuid() == 0 else None
        if self._marker is None:
            self.why_not = why_not(self._directory)
