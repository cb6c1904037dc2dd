"""The manual page says what `--help` says, in correct roff."""

from __future__ import annotations

import re
import subprocess

from gridwright.cli.shell.man_page import man_page
from tests.support.skips import needs
from tests.unit.cli.test_startup import verbs


def shown(page: str) -> str:
    """The page as a reader sees it, in one very wide column."""
    command = ["mandoc", "-Tascii", "-Owidth=1000"]
    done = subprocess.run(command, input=page, capture_output=True, text=True, check=True, timeout=60)
    return " ".join(re.sub(".\b", "", done.stdout).split())


def test_the_page_is_correct() -> None:
    needs("mandoc")
    done = subprocess.run(
        ["mandoc", "-Tlint", "-W", "warning"],
        input=man_page(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_page_has_every_verb_with_every_flag_and_its_help() -> None:
    needs("mandoc")
    text = shown(man_page())
    missing = []
    for words, command in verbs().items():
        for parameter in [each for each in command.params if not getattr(each, "hidden", False)]:
            names = (
                parameter.opts if parameter.opts[0].startswith("-") else [parameter.metavar or parameter.name]
            )
            said = [f"gridwright {' '.join(words)}", *names, " ".join(parameter.help.split())]
            missing += [each for each in said if each not in text and each != "--help"]
    assert missing == []
    assert "EXIT STATUS 0 Done, and all requirements are met. 1 Done, but" in text
