"""Each text names what failed, and not something else: two values for every part of it."""

from __future__ import annotations

import errno

import pytest

from gridwright.iotest.library_facts import call_problem, os_error_problem


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "no space is left"),
        (errno.EDQUOT, "quota"),
        (errno.EIO, "I/O error"),
        (errno.EROFS, "read-only"),
        (errno.ENOENT, "no such directory"),
        (errno.ENOTDIR, "not a directory"),
        (errno.EACCES, "permission is denied"),
        (errno.EPERM, "not permitted"),
        (errno.ESTALE, "stale"),
        (errno.ETIMEDOUT, "does not answer"),
        (errno.ENOTCONN, "connection is lost"),
        (errno.EMFILE, "too many files"),
        (errno.ENOMEM, "memory"),
        (errno.EAGAIN, "limit"),
        (errno.EFBIG, "larger"),
        (errno.EXDEV, "cross-device"),
    ],
)
@pytest.mark.parametrize(
    ("library", "path", "doing"),
    [("data", "/srv/data/s-0", "write at byte 4096"), ("util", "/mnt/u/s-7", "fsync")],
)
def test_a_failed_call_is_explained(number: int, words: str, library: str, path: str, doing: str) -> None:
    found = call_problem(number, library=library, path=path, doing=doing)
    assert f"library {library}:" in found.what
    assert f"({doing}: {errno.errorcode[number]})" in found.what
    assert words in found.what.lower() or words in found.what
    assert found.where == path
    assert found.remedy


def test_every_error_has_an_advice_of_its_own() -> None:
    numbers = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ENOENT, errno.EACCES, errno.EAGAIN)
    remedies = [call_problem(n, library="data", path="/data", doing="open").remedy for n in numbers]
    assert len(set(remedies)) == len(numbers)


def test_einval_of_a_direct_request_means_that_direct_io_is_refused() -> None:
    direct = call_problem(errno.EINVAL, library="data", path="/data", doing="open", direct=True)
    assert "refuses direct I/O" in direct.what
    assert "--engine buffered" in str(direct.remedy)
    buffered = call_problem(errno.EINVAL, library="data", path="/data", doing="open")
    assert "direct" not in buffered.what


@pytest.mark.parametrize(
    "message", ["the file ends at byte 8192 of 65536", "the file ends at byte 0 of 4096"]
)
def test_an_error_without_a_number_keeps_the_text_of_the_engine(message: str) -> None:
    found = call_problem(0, library="data", path="/data", doing="read at byte 8192", message=message)
    assert message in found.what


@pytest.mark.parametrize("name", ["/srv/one", "/srv/two"])
def test_an_os_error_names_its_own_file_before_the_library(name: str) -> None:
    error = OSError(errno.EACCES, "Permission denied", name)
    assert os_error_problem(error, library="data", path="/srv", doing="preparing").where == name
    nameless = OSError(errno.EACCES, "Permission denied")
    assert os_error_problem(nameless, library="data", path=name, doing="preparing").where == name
