"""What is wrong with the files of a library on Lustre: by a scan, or by lfs where there is no Gridwright."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from gridwright.errors import Finding, GridwrightError
from gridwright.filesystems.counters import Counts, traffic
from gridwright.filesystems.desired_layout import DesiredLayout
from gridwright.filesystems.health import Run
from gridwright.filesystems.lustre_client.attribute import Scanned
from gridwright.filesystems.lustre_client.counters import read_connection_counters
from gridwright.filesystems.lustre_client.data_on_mdt import data_on_mdt_findings, read_metadata_space
from gridwright.filesystems.lustre_client.hsm import archive_states
from gridwright.filesystems.lustre_client.library_scan import scan_library
from gridwright.filesystems.lustre_client.mounts import client_mount, file_system_name
from gridwright.filesystems.lustre_client.scan_findings import LayoutFindings
from gridwright.filesystems.lustre_client.scan_program import LibraryScan
from gridwright.filesystems.lustre_client.single_target import number_of_targets, single_target_files
from gridwright.filesystems.lustre_client.target_load import SECONDS, load_findings
from gridwright.filesystems.mount_table import read_mounts

ARCHIVE_S = 5.0
"""For the state of some tens of files: a metadata server tells one within milliseconds."""


def library_findings(
    run: Run, directory: str, wish: DesiredLayout, *, pause: Callable[[float], None] = time.sleep
) -> list[Finding]:
    """All findings of its layouts; a sample, since it ends after some seconds.

    Raises GridwrightError (status ENVIRONMENT) where nothing answers.
    """
    targets = number_of_targets(run)
    if targets < 1:
        return []
    look = _Look(run, directory, wish, targets)
    before, began = look.counts(), time.monotonic()
    found = scan_library(run, directory)
    if found is None or _is_blind(found.scanned):
        # There is no Gridwright where the file system is mounted, or the attribute is not shown there.
        return single_target_files(run, directory, wish)
    told = list(look.of_files(found))
    if before and not found.scanned.hanging:
        pause(max(0.0, SECONDS - (time.monotonic() - began)))
        told += load_findings(traffic(before, look.counts()), targets, wish.target_bytes_per_s)
    return told


@dataclass(slots=True)
class _Look:
    run: Run
    directory: str
    wish: DesiredLayout
    targets: int

    def counts(self) -> Counts:
        """What this client moved by target; nothing where that is not told, as to others than root."""
        with suppress(GridwrightError):
            if name := self._name():
                return read_connection_counters(self.run, name)
        return {}

    def of_files(self, found: LibraryScan) -> Iterator[Finding]:
        """What the scan shows; files that an archive knows are left alone."""
        judged = LayoutFindings(found, self.directory, self.targets, self.wish)
        if not found.scanned.hanging and (suspects := judged.suspects):
            with suppress(GridwrightError):
                states = archive_states(self.run, suspects, timeout_s=ARCHIVE_S)
                judged.without([path for path, flags in states.items() if flags])
        yield from judged.all()
        if found.scanned.metadata_server_bytes:
            with suppress(GridwrightError):
                spaces = read_metadata_space(self.run, self._name() or "*")
                yield from data_on_mdt_findings(found, self.directory, spaces, self.wish)

    def _name(self) -> str:
        """Of the file system that is mounted here; empty where none is."""
        mount = client_mount(self.directory, read_mounts(self.run))
        return file_system_name(mount.source) if mount else ""


def _is_blind(scanned: Scanned) -> bool:
    """Whether no file had the attribute."""
    return 0 < scanned.files.files == scanned.without_layout.files
