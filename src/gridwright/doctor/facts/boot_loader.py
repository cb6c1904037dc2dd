"""The kernel that a node starts next, by the files of GRUB: menus of Debian, and entries of Red Hat."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_MENU, _ENTRIES = "boot/grub/grub.cfg", "boot/loader/entries"
_ENVIRONMENTS = ("boot/grub2/grubenv", "boot/grub/grubenv")
_CLOSED = "only root may read what the boot loader starts"
_KERNEL = re.compile(r"^\s*linux(?:16|efi)?\s+\S*?vmlinuz-(\S+)", re.MULTILINE)
_TITLE = re.compile(r"\s*(submenu|menuentry)\s+(?:'([^']*)'|\"([^\"]*)\")(.*)\{\s*$")


@dataclass(slots=True)
class _Entry:
    """An entry of a menu, with those below it."""

    titles: tuple[str, ...] = ()
    kernel: str | None = None
    below: list[_Entry] = field(default_factory=list)


def next_kernel(root: Path) -> tuple[str | None, str]:
    """Its release; None, and why, where that is not known."""
    try:
        environment = _environment(root)
        if (root / _ENTRIES).is_dir():
            return _by_entries(root / _ENTRIES, environment)
        if (root / _MENU).exists():
            return _by_menu((root / _MENU).read_text(errors="replace"), environment)
    except PermissionError:
        return None, _CLOSED
    except OSError as error:
        return None, f"the boot loader's files cannot be read: {error.strerror}"
    return None, "it has no GRUB"


def _environment(root: Path) -> dict[str, str]:
    for each in _ENVIRONMENTS:
        if (root / each).exists():
            return dict(re.findall(r"^(\w+)=(.*)$", (root / each).read_text(errors="replace"), re.MULTILINE))
    return {}


def _by_entries(directory: Path, environment: dict[str, str]) -> tuple[str | None, str]:
    """Entries of the Boot Loader Specification, of which grubenv names one by its file, or its number."""
    found: dict[str, str] = {}
    for path in sorted(directory.glob("*.conf")):
        version = re.search(r"^version\s+(\S+)", path.read_text(errors="replace"), re.MULTILINE)
        if version:
            found[path.stem] = version[1]
    saved = environment.get("next_entry") or environment.get("saved_entry", "")
    if saved in found:
        return found[saved], ""
    return None, f"the boot loader is to start {saved or 'its newest entry'}"


def _by_menu(text: str, environment: dict[str, str]) -> tuple[str | None, str]:
    """The entry that the menu has for its default: names or numbers, with > between those of its menus."""
    defaults: list[str] = re.findall(r"^\s*set default=\"(.*)\"", text, re.MULTILINE)
    chosen = next((each for each in reversed(defaults) if each != "${next_entry}"), "0")
    if chosen == "${saved_entry}":
        chosen = environment.get("saved_entry") or "0"
    chosen = environment.get("next_entry") or chosen
    entries, entry = _entries(text), None
    for name in chosen.split(">"):
        entry = _named(entries, name)
        if entry is None:
            return None, f"the boot loader is to start {chosen}, which its menu does not have"
        entries = entry.below
    while entry is not None and entry.kernel is None and entry.below:
        entry = entry.below[0]
    if entry is None or entry.kernel is None:
        return None, f"the boot loader is to start {chosen}, which is no kernel"
    return entry.kernel, ""


def _named(entries: list[_Entry], name: str) -> _Entry | None:
    found = next((each for each in entries if name in each.titles), None)
    if found is None and name.isdecimal() and int(name) < len(entries):
        return entries[int(name)]
    return found


def _entries(text: str) -> list[_Entry]:
    top = _Entry()
    open_ = [top]
    for line in _outside_functions(text):
        words = _TITLE.match(line)
        kernel = _KERNEL.match(line)
        if words:
            identifier = re.search(r"(?:\$menuentry_id_option|--id)\s+'?([^'\s]+)'?", words[4])
            names = (words[2] or words[3] or "", *([identifier[1]] if identifier else []))
            made = _Entry(names)
            open_[-1].below.append(made)
            open_.append(made)
        elif kernel and len(open_) > 1 and open_[-1].kernel is None:
            open_[-1].kernel = kernel[1]
        elif line.strip() == "}" and len(open_) > 1:
            open_.pop()
    return top.below


def _outside_functions(text: str) -> Iterator[str]:
    """Lines without those of functions, whose braces are none of a menu's."""
    inside = False
    for line in text.splitlines():
        if line.startswith("function "):
            inside = True
        if not inside:
            yield line
        elif line.startswith("}"):
            inside = False
