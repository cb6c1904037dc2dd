"""What `repo status` says of changelogs, to people and to programs."""

from __future__ import annotations

import json

from gridwright.repository.changelog.changes import MOST_COUNTED, ChangelogStanding
from gridwright.repository.status import RepositoryStatus


def test_what_waits_in_changelogs_is_said() -> None:
    status = RepositoryStatus("archive", "s3://site/prod", "/lustre/data")
    assert "changelog" not in status.text()
    status.changelogs = [
        ChangelogStanding("scratch-MDT0000", "cl3", 30, 42, 12, 61.4, 900.0),
        ChangelogStanding("scratch-MDT0001", "cl1", 7, 100_007, MOST_COUNTED, None, None),
    ]
    status.changelog_trouble = "records 5 to 7 of scratch-MDT0000 are missing"
    text = status.text()
    assert (
        "changelog of scratch-MDT0000: user cl3 is at record 30, 12 records behind (the last is 42, the "
        "oldest 61 s old); last taken 900 s ago"
    ) in text
    assert "scratch-MDT0001: user cl1 is at record 7, more than 100,000 records behind" in text
    assert "exports look at all files: records 5 to 7 of scratch-MDT0000 are missing" in text
    document = json.loads(json.dumps(status.document()))
    assert document["changelogs"][0] == {
        "mdt": "scratch-MDT0000", "user": "cl3", "index": 30, "last": 42, "untaken": 12,
        "oldest_s": 61.4, "idle_s": 900.0,
    }  # fmt: skip
    assert document["changelog_trouble"] == status.changelog_trouble
