"""A full disk is told of in words that hold for its file system."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gridwright.errors import GridwrightError
from gridwright.repository.contents import check_room, disk_is_full
from tests.support.repositories import opened_without_store


@pytest.mark.parametrize(
    ("archive", "remains"), [(None, "in the bucket"), (1, "names only")], ids=["plain", "guarded"]
)
def test_what_was_not_brought_is_a_name_only_where_the_file_system_guards_it(
    tmp_path: Path, archive: int | None, remains: str
) -> None:
    opened = opened_without_store(tmp_path)
    try:
        opened.settings = replace(opened.settings, archive_id=archive)
        with pytest.raises(GridwrightError, match="no content was brought") as refused:
            check_room(opened, 1 << 62)
        for text in (str(refused.value), str(disk_is_full(opened))):
            assert remains in text
            assert ("names only" in text) is (archive is not None)
    finally:
        opened.close()
