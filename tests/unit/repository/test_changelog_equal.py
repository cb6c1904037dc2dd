"""Changelogs and scans find the same changes, whatever is done to files, whoever is killed, and when."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from tests.unit.repository.changelog_site import REPOSITORY, ChangelogSite


class Killed(BaseException):
    """The process is gone."""


NAMES = st.sampled_from([b"a", b"b", b"c\n1 02MKDIR", b"\xff"])
PATHS = st.tuples(st.sampled_from([REPOSITORY, b"elsewhere"]), st.lists(NAMES, min_size=1, max_size=3)).map(
    lambda parts: b"/".join([parts[0], *parts[1]])
)
CONTENT = st.binary(max_size=3)
PICKS = st.integers(0, 1 << 16)
"""Of what is there."""


class Changes(RuleBasedStateMachine):
    """Files of a Lustre are changed in all ways, and exported now and then."""

    def __init__(self) -> None:
        super().__init__()
        # Each commit waits for a disk elsewhere.
        self.place = tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        self.site = ChangelogSite(Path(self.place), mdts=2)
        self.lustre = self.site.lustre
        self.descriptors: list[int] = []
        self.others: list[tuple[str, str]] = []

        for path in (b"results/a", b"results/a/b", b"elsewhere/a"):
            self.lustre.mkdir(path)
        for path in (b"results/b", b"results/a/a", b"results/a/b/a", b"elsewhere/a/b"):
            self.lustre.create(path, path)

    def teardown(self) -> None:
        for each in self.descriptors:
            os.close(each)
        shutil.rmtree(self.place)

    def pick(self, number: int) -> bytes:
        """Something that is there."""
        found = self.site.existing() or [REPOSITORY]
        return found[number % len(found)]

    def change(self, what: Callable[[], None]) -> None:
        try:
            what()
        except OSError as error:
            assert error.errno in (
                *(errno.ENOENT, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENOTEMPTY, errno.EINVAL),
                *(errno.EPERM, errno.EXDEV, errno.ELOOP, errno.ETXTBSY),
            )

    @rule(path=PATHS, content=CONTENT)
    def create(self, path: bytes, content: bytes) -> None:
        self.change(lambda: self.lustre.create(path, content))

    @rule(path=PATHS)
    def mkdir(self, path: bytes) -> None:
        self.change(lambda: self.lustre.mkdir(path))

    @rule(pick=PICKS, new=PATHS)
    def link(self, pick: int, new: bytes) -> None:
        path = self.pick(pick)
        self.change(lambda: self.lustre.link(path, new))

    @rule(path=PATHS)
    def symlink(self, path: bytes) -> None:
        self.change(lambda: self.lustre.symlink(b"a", path))

    @rule(pick=PICKS)
    def unlink(self, pick: int) -> None:
        path = self.pick(pick)
        self.change(lambda: self.lustre.unlink(path))

    @rule(pick=PICKS)
    def rmdir(self, pick: int) -> None:
        path = self.pick(pick)
        self.change(lambda: self.lustre.rmdir(path))

    @rule(pick=PICKS, new=PATHS)
    def rename(self, pick: int, new: bytes) -> None:
        path = self.pick(pick)
        self.change(lambda: self.lustre.rename(path, new))

    @rule(pick=PICKS, mode=st.sampled_from([0o600, 0o755]))
    def chmod(self, pick: int, mode: int) -> None:
        path = self.pick(pick)
        if self.lustre.mount.joinpath(os.fsdecode(path)).is_symlink():
            return
        self.change(lambda: self.lustre.chmod(path, mode))

    @rule(pick=PICKS, mtime_ns=st.integers(1, 10**18))
    def touch(self, pick: int, mtime_ns: int) -> None:
        path = self.pick(pick)
        self.change(lambda: self.lustre.touch(path, mtime_ns))

    @rule(pick=PICKS, size=st.integers(0, 9))
    def truncate(self, pick: int, size: int) -> None:
        path = self.pick(pick)
        if self.lustre.mount.joinpath(os.fsdecode(path)).is_symlink():
            return
        self.change(lambda: self.lustre.truncate(path, size))

    @rule(pick=PICKS)
    def open(self, pick: int) -> None:
        path = self.pick(pick)
        if self.lustre.mount.joinpath(os.fsdecode(path)).is_symlink():
            return
        self.change(lambda: self.descriptors.append(self.lustre.open(path)))

    @precondition(lambda self: self.descriptors)
    @rule(content=st.binary(min_size=1, max_size=3))
    def close(self, content: bytes) -> None:
        self.lustre.write_and_close(self.descriptors.pop(), content)

    @rule(pick=PICKS, mode=st.sampled_from([0o640, 0o750]))
    def chmod_whose_record_comes_late(self, pick: int, mode: int) -> None:
        path = self.pick(pick)
        if self.lustre.mount.joinpath(os.fsdecode(path)).is_symlink():
            return
        self.lustre.holds_back = True
        self.change(lambda: self.lustre.chmod(path, mode))
        self.lustre.holds_back = False

    @rule()
    def late_records_come(self) -> None:
        self.lustre.write_held_back()

    @rule()
    def somebody_registers_and_never_reads(self) -> None:
        for mdt, log in self.lustre.logs.items():
            self.others.append((mdt, log.register()))

    @precondition(lambda self: self.others)
    @rule()
    def somebody_leaves(self) -> None:
        mdt, user = self.others.pop()
        self.lustre.logs[mdt].remove(user)

    @rule(does=st.integers(0, 4))
    def lustre_removes_the_user(self, does: int) -> None:
        log = self.lustre.logs["scratch-MDT0000"]
        # Of an MDT that never had a record nobody can tell.
        if not does and log.users.get(self.site.user()):
            log.remove(self.site.user())

    @rule()
    def set_up(self) -> None:
        """Users that are registered stay."""
        if any(self.site.user(mdt) not in log.users for mdt, log in self.lustre.logs.items()):
            self.site.register()

    @rule(deletions=st.booleans())
    def export(self, deletions: bool) -> None:
        self.site.export(deletions)

    @rule(failing=NAMES, deletions=st.booleans())
    def export_that_fails_for_some(self, failing: bytes, deletions: bool) -> None:
        self.site.export(deletions, fails=lambda path: path.endswith(failing))

    @rule(path=PATHS, new=PATHS, mtime_ns=st.integers(1, 10**18), holds_back=st.booleans())
    def export_while_files_change(self, path: bytes, new: bytes, mtime_ns: int, holds_back: bool) -> None:
        def meanwhile() -> None:
            self.change(lambda: self.lustre.touch(path, mtime_ns))
            self.change(lambda: self.lustre.rename(path, new))
            self.change(lambda: self.lustre.create(path))

        self.lustre.holds_back = holds_back
        self.change(lambda: self.lustre.create(new, b"before"))
        self.site.export(meanwhile=meanwhile, compares=False)
        self.lustre.holds_back = False

    @rule(at=st.integers(0, 3), after=st.booleans())
    def killed_export(self, at: int, after: bool) -> None:
        """Killed before or after a clear, or the work."""
        left = [at]
        clear = self.lustre.clear

        def killing(mdt: str, user: str, last: int) -> None:
            left[0] -= 1
            if left[0] < 0 and not after:
                raise Killed
            clear(mdt, user, last)
            if left[0] < 0:
                raise Killed

        self.lustre.clear = killing  # type: ignore[method-assign]
        try:
            self.site.export(compares=False, fails=lambda _path: True)
        except Killed:
            pass
        finally:
            self.lustre.clear = clear  # type: ignore[method-assign]


TestChanges = Changes.TestCase
TestChanges.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
