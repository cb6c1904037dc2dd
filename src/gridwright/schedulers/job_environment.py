"""Which variables of the one who submits a job has in its environment."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping, Sequence

from gridwright.errors import Problem

ALL, NONE = "all", "none"
_LOGIN = ("HOME", "LOGNAME", "USER", "SHELL", "LANG", "LC_ALL", "TZ")
_PATH = "/usr/local/bin:/usr/bin:/bin"


def chosen_environment(
    words: Sequence[str], environment: Mapping[str, str]
) -> tuple[dict[str, str], list[Problem]]:
    """The environment of a job, and what is wrong with the words that choose it.

    `all` takes all of `environment`, `none` what a fresh login has, NAME one variable of it, and NAME=VALUE
    sets one. Without all or none, names alone mean that there are no others.
    """
    problems: list[Problem] = []
    names = [word for word in words if word not in (ALL, NONE) and "=" not in word]
    if ALL in words and NONE in words:
        problems.append(
            Problem(what="all and none exclude each other", where="environment", remedy="write one of them")
        )
    chosen = dict(environment) if ALL in words or (not names and NONE not in words) else _fresh(environment)
    for name in names:
        if name in environment:
            chosen[name] = environment[name]
        else:
            problems.append(
                Problem(
                    what=f"there is no variable {name}",
                    where="environment",
                    remedy=f"set it here, or write {name}=VALUE",
                )
            )
    for word in words:
        name, equals, value = word.partition("=")
        if equals and name:
            chosen[name] = value
        elif equals:
            problems.append(
                Problem(what=f"{word!r} has no name", where="environment", remedy="write NAME=VALUE")
            )
    return chosen, problems


def _fresh(environment: Mapping[str, str]) -> dict[str, str]:
    """What login gives a user: who it is, where home is, and a plain search path."""
    found = {name: environment[name] for name in _LOGIN if name in environment}
    try:
        user = pwd.getpwuid(os.geteuid())
    except KeyError:
        return {"PATH": _PATH} | found
    plain = {
        "HOME": user.pw_dir,
        "LOGNAME": user.pw_name,
        "USER": user.pw_name,
        "SHELL": user.pw_shell or "/bin/sh",
    }
    return {"PATH": _PATH} | plain | found
