"""Reads settings of a node by the names that the tuning table gives them."""

from __future__ import annotations

import re
import resource
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from gridwright.kernel_files import text_of

_SYS = Path("/sys")
_MOST_FILES = 1024
"""Files that one pattern may name: governors of many processors."""
_OF_MOUNTS = "class/bdi/0:"
"""Below it are file systems without a disk, of all kinds; the table means those of NFS."""
_MOUNTS = Path("/proc/self/mountinfo")
_ACTIVE_PROFILE = Path("/etc/tuned/active_profile")
SHOWN_UNLIMITED = "unlimited"


def values(read: Callable[[str], str | None], keys: Iterable[str]) -> dict[str, str | None]:
    """What each key holds; None where there is no such setting; `?` and why where it may not be read."""
    found: dict[str, str | None] = {}
    for key in keys:
        try:
            found[key] = read(key)
        except (PermissionError, TimeoutError) as error:
            found[key] = f"?{error.strerror}"
        except OSError:
            found[key] = None
    return found


def sysctl(key: str) -> str | None:
    """A value below /proc/sys, its fields one space apart; a name has dots or slashes (sysctl(8))."""
    if ".." in key.split("/"):
        return None
    path = key if "/" in key else key.replace(".", "/")
    return " ".join((Path("/proc/sys") / path).read_text().split())


def sysfs(pattern: str) -> str | None:
    """What files below /sys hold, the chosen one of several words; different ones with commas."""
    if ".." in pattern.split("/"):
        return None
    paths = sorted(_SYS.glob(pattern.lstrip("/")))[:_MOST_FILES]
    if not paths:
        return None
    if pattern.lstrip("/").startswith(_OF_MOUNTS):
        served = set(_served_devices())
        paths = [path for path in paths if path.parent.name in served]
        if not paths:
            return None
    found = {chosen(path.read_text().strip()) for path in paths}
    return ", ".join(sorted(found))


def _served_devices() -> Iterator[str]:
    """Numbers of the devices that stand for mounts of NFS (proc(5), /proc/self/mountinfo)."""
    for line in _MOUNTS.read_text(errors="replace").splitlines():
        words = line.split()
        if "-" in words[6:] and words[words.index("-", 6) + 1].startswith("nfs"):
            yield words[2]


def chosen(text: str) -> str:
    """The word in brackets, as in `always [madvise] never`, else all of it."""
    found = re.search(r"\[([^]]*)\]", text)
    return found[1] if found else text


def limit(key: str) -> str | None:
    """A limit of this process, which a login gave it: `nofile` (the soft one), `nofile hard`.

    The names are those of limits.conf(5).
    """
    words = set(re.split(r"[\s.:_-]+", key))
    hard = bool(words & {"hard"})
    name = next(iter(words - {"hard", "soft"}), "")
    number = getattr(resource, f"RLIMIT_{name.upper()}", None)
    if number is None:
        return None
    found = resource.getrlimit(number)[1 if hard else 0]
    return SHOWN_UNLIMITED if found == resource.RLIM_INFINITY else str(found)


def tuned() -> str | None:
    """The profile that tuned has been told to keep (tuned-adm(8))."""
    return text_of(_ACTIVE_PROFILE)
