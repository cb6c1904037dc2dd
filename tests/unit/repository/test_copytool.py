"""Lists of actions as Lustre writes them, and which action of many is next."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gridwright.errors import GridwrightError
from gridwright.repository.copytool import service
from gridwright.repository.copytool.liblustreapi import ActionListError, HsmAction, HsmVerb, parse_action_list
from gridwright.repository.copytool.service import MOST_WAITING, ActionJournal, ActionWindow

FIDS = st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
ITEMS = st.lists(
    st.tuples(st.sampled_from(HsmVerb), FIDS, st.integers(0, 2**64 - 1), st.binary(max_size=20)), max_size=5
)


def written(
    name: bytes, items: list[tuple[HsmVerb, tuple[int, int, int], int, bytes]], version: int = 1
) -> bytes:
    """A list in the layout of lustre_user.h, written independently of its reader."""
    data = struct.pack("=IIQQII", version, len(items), 1, 0, 7, 0) + name + b"\0"
    for verb, fid, cookie, more in items:
        data += bytes(-len(data) % 8)
        data += struct.pack("=II", 72 + len(more), verb) + struct.pack("=QII", *fid) * 2
        data += struct.pack("=QQQQ", 0, 2**64 - 1, cookie, 0) + more
    return data


@given(st.binary(max_size=8).filter(lambda name: b"\0" not in name), ITEMS)
def test_every_action_of_a_list_is_read_whatever_data_it_carries(
    name: bytes, items: list[tuple[HsmVerb, tuple[int, int, int], int, bytes]]
) -> None:
    read = parse_action_list(written(name, items))
    assert [(each.verb, each.cookie, each.archive_id) for each in read] == [(v, c, 7) for v, _, c, _ in items]
    for action, (_, fid, _, more) in zip(read, items, strict=True):
        assert str(action.fid) == ":".join(f"{part:#x}" for part in fid)
        assert action.item.endswith(more)
        assert len(action.item) == 72 + len(more)


@given(ITEMS.filter(bool), st.data())
def test_a_list_that_is_cut_or_is_of_another_version_is_refused_as_a_whole(
    items: list[tuple[HsmVerb, tuple[int, int, int], int, bytes]], data: st.DataObject
) -> None:
    whole = written(b"FS", items)
    with pytest.raises(ActionListError):
        parse_action_list(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(ActionListError, match="version 2"):
        parse_action_list(written(b"FS", items, version=2))


@given(st.binary(max_size=300))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    try:
        parse_action_list(data)
    except ActionListError:
        return


def action(verb: HsmVerb, cookie: int) -> HsmAction:
    (made,) = parse_action_list(written(b"FS", [(verb, (1, cookie, 0), cookie, b"")]))
    return made


def test_content_goes_to_no_file_of_an_agent_before() -> None:
    """An action that is handed out again names it, and the library would open it (Lustre 2.17)."""
    data = written(b"FS", [(HsmVerb.RESTORE, (1, 2, 3), 4, b"x")])
    again = data[:-49] + struct.pack("=QII", 5, 6, 7) + data[-33:]
    assert len(again) == len(data)
    assert again != data
    assert parse_action_list(again) == parse_action_list(data)


def test_an_agent_knows_what_the_one_before_it_has_not_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "DIRECTORY", tmp_path / "agents")
    monkeypatch.setattr(service, "_LONG", 2000)
    first = ActionJournal(tmp_path)
    assert first.left() == []
    for number in range(0, 100, 2):
        first.note([action(HsmVerb.RESTORE, number), action(HsmVerb.ARCHIVE, number + 1)])
        first.done(number)
        if number:
            first.done(number - 1)
    first.done(4711)
    (file,) = (tmp_path / "agents").glob("*/actions")
    assert file.stat().st_size < 3000
    with file.open("ab") as more:
        more.write(b'[99, 7, "48')
    # Killed there.
    assert ActionJournal(tmp_path).left() == [action(HsmVerb.ARCHIVE, 99)]
    first.done(99)
    assert ActionJournal(tmp_path).left() == []
    assert file.stat().st_size == 0


def test_actions_that_others_may_have_written_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "DIRECTORY", tmp_path / "agents")
    ActionJournal(tmp_path).close()
    (file,) = (tmp_path / "agents").glob("*/actions")
    file.chmod(0o666)
    with pytest.raises(GridwrightError, match="other users can write it"):
        ActionJournal(tmp_path)
    file.chmod(0o600)
    file.parent.chmod(0o777)
    with pytest.raises(GridwrightError, match="other users can write it"):
        ActionJournal(tmp_path)


def test_restores_come_first_and_others_never_take_all_threads() -> None:
    window = ActionWindow(most_others=1)
    archives = [action(HsmVerb.ARCHIVE, number) for number in range(3)]
    restores = [action(HsmVerb.RESTORE, number) for number in (10, 11)]
    for each in (*archives, *restores):
        assert window.put(each)
    assert [window.take(), window.take(), window.take()] == [*restores, archives[0]]
    # A second archive would wait for the first; a restore does not.
    late = action(HsmVerb.RESTORE, 12)
    window.put(late)
    assert window.take() == late
    window.done(archives[0])
    assert window.take() == archives[1]
    assert window.withdraw(2) == archives[2]
    assert window.withdraw(2) is None
    assert window.close() == []
    assert window.take() is None


def test_of_archives_so_many_wait_and_a_restore_always_may() -> None:
    window = ActionWindow(most_others=1)
    archive = action(HsmVerb.ARCHIVE, 1)
    assert all(window.put(archive) for _ in range(MOST_WAITING))
    assert not window.put(archive)
    assert window.put(action(HsmVerb.RESTORE, 2))
    assert len(window.close()) == MOST_WAITING + 1
