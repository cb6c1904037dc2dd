"""A command for another machine, read by the login shells that people have there."""

from __future__ import annotations

import subprocess

import pytest

from gridwright.schedulers.head_node import for_remote_shell

WORDS = (
    ["a b", "", "$HOME `id` ~ * ? [a] {b,c} ; & | < > ( ) # % ^", "é"],
    ['it\'s\n"two" lines\n', "never!", "!!", "back\\slash\\n \\0101", "%b%s", "\t\n"],
    ["x" * 20_000 + "\n"],
)


@pytest.mark.parametrize("shell", ["sh", "bash", "tcsh"])
@pytest.mark.parametrize("words", WORDS)
def test_every_login_shell_reads_the_same_words(shell: str, words: list[str]) -> None:
    text = for_remote_shell(["printf", "%s|", *words])
    done = subprocess.run([shell, "-c", text], capture_output=True, timeout=30, check=True)
    assert done.stdout.decode() == "".join(f"{word}|" for word in words)
    assert done.stderr == b""


def test_what_every_shell_reads_alike_stays_readable() -> None:
    assert for_remote_shell(["sinfo", "--format=%N %t"]) == "sinfo '--format=%N %t'"
