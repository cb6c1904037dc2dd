"""What metadata servers keep in changelogs, as it was recorded of a real one, and when that is told of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.filesystems.lustre_client.metadata_servers import (
    IDLE_S,
    MANY_RECORDS,
    STRANGER_IDLE_S,
    RetainedChangelog,
    parameter_names,
    parse_changelogs,
    retention_findings,
)
from gridwright.filesystems.lustre_client.parameters import parse_parameters
from tests.fixtures.lustre_node import RECORDED

OURS = "gw-archi-1a2b3c"


def parsed(text: str) -> list[RetainedChangelog]:
    return parse_changelogs(parse_parameters(text, parameter_names("scratch")))


def recorded(name: str) -> RetainedChangelog:
    (found,) = parsed((RECORDED / f"{name}.out").read_text())
    return found


def told(*users: str, index: int = 18, size: int = 16528) -> list[RetainedChangelog]:
    """A changelog with users in the words of recording 508."""
    text = (
        f"mdd.scratch-MDT0000.changelog_users=\ncurrent_index: {index}\n"
        "ID                            index (idle) mask\n" + "".join(f"{each}\n" for each in users)
    )
    return parsed(f"{text}mdd.scratch-MDT0000.changelog_size={size}\n")


def names(changelogs: list[RetainedChangelog], *ours: str) -> list[str]:
    return [each.name for each in retention_findings(changelogs, ours)]


def test_users_are_read_as_they_were_recorded() -> None:
    first = recorded("501-changelog_users")
    assert (first.target, first.index, first.size_bytes) == ("scratch-MDT0000", 0, 16528)
    assert [(each.full_name, each.index, each.idle_s) for each in first.users] == [("cl1", 0, 1)]
    cleared = recorded("505-changelog_clear")
    assert (cleared.index, cleared.behind(cleared.users[0])) == (18, 14)
    named = recorded("508-changelog-named")
    assert [(each.number, each.name, each.index) for each in named.users] == [("cl2", "mytool", 18)]


def test_users_of_earlier_releases_are_read() -> None:
    """As `lprocfs_rd_changelog_users` of Lustre 2.10 prints them, and 2.12 with idle times."""
    text = "mdd.scratch-MDT0000.changelog_users=\ncurrent index: 18\nID    index{}\ncl1   4{}\n"
    for head, idle, seconds in (("", "", 0), (" (idle seconds)", " (77)", 77)):
        (found,) = parsed(text.format(head, idle))
        assert [(each.index, each.idle_s) for each in found.users] == [(4, seconds)]
        assert found.index == 18


@pytest.mark.parametrize(
    ("users", "index", "expected"),
    [
        ([f"cl3-{OURS}  18 (999999) mask=MARK,CREAT"], 18, []),
        ([f"cl3-{OURS}  17 ({IDLE_S - 1})"], 18, []),
        ([f"cl3-{OURS}  17 ({IDLE_S})"], 18, ["changelog-behind"]),
        ([f"cl3-{OURS}  0 (3)"], MANY_RECORDS, ["changelog-behind"]),
        ([], 18, ["changelog-user-missing"]),
        (["cl3-gw-archi-000000  18 (3)"], 18, ["changelog-user-missing"]),
        ([f"cl3-{OURS}  200000 (3)", f"cl1  0 ({STRANGER_IDLE_S})"], 200000, ["changelog-user-unknown"]),
        ([f"cl3-{OURS}  200000 (3)", f"cl1  0 ({STRANGER_IDLE_S - 1})"], 200000, []),
        ([f"cl3-{OURS}  200 (3)", f"cl1  0 ({STRANGER_IDLE_S})"], 200, []),
    ],
)
def test_records_that_are_kept_in_vain_are_told_of(users: list[str], index: int, expected: list[str]) -> None:
    assert names(told(*users, index=index), OURS) == expected


def test_the_remedy_names_the_very_user() -> None:
    one, two = told("cl1  0 (9999999)", "cl7-robin  5 (9999999)", index=500_000)[0].users
    found = list(retention_findings(told("cl1  0 (9999999)", "cl7-robin  5 (9999999)", index=500_000), ()))
    assert [each.name for each in found] == ["changelog-user-unknown"] * 2
    assert "lctl --device scratch-MDT0000 changelog_deregister cl1" in str(found[0])
    assert "lctl --device scratch-MDT0000 changelog_deregister -u robin" in str(found[1])
    assert (one.full_name, two.full_name) == ("cl1", "cl7-robin")


@given(st.text(max_size=200))
def test_no_text_breaks_the_parser(text: str) -> None:
    for each in parsed(f"mdd.scratch-MDT0000.changelog_users=\n{text}\n"):
        list(retention_findings([each], [OURS]))
