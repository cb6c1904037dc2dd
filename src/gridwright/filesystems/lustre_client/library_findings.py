"""What is wrong with the files of a library on Lustre: by a scan, or by lfs where there is no Gridwright."""

from __future__ import annotations

from gridwright.errors import Finding
from gridwright.filesystems.health import Run
from gridwright.filesystems.lustre_client.attribute import Scanned
from gridwright.filesystems.lustre_client.library_scan import library_scan_findings, scan_library
from gridwright.filesystems.lustre_client.single_target import number_of_targets, single_target_files


def library_findings(run: Run, directory: str) -> list[Finding]:
    """All findings of its layouts; a sample, since it ends after some seconds.

    Raises GridwrightError (status ENVIRONMENT) where nothing answers.
    """
    targets = number_of_targets(run)
    if targets < 2:
        return []
    found = scan_library(run, directory)
    if found is None or _is_blind(found.scanned):
        # There is no Gridwright where the file system is mounted, or the attribute is not shown there.
        return single_target_files(run, directory)
    return list(library_scan_findings(found, directory, targets))


def _is_blind(scanned: Scanned) -> bool:
    """Whether no file had the attribute."""
    return 0 < scanned.files.files == scanned.without_layout.files
