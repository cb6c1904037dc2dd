"""Kernels of a node: which are installed, which starts next, what modules of file systems each has.

The kernel that a node starts next, by the files of GRUB: menus of Debian, and entries of Red Hat.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gridwright.doctor.facts.node_facts import KernelFacts, KernelsFacts
from gridwright.kernel_files import names_in, text_of

_MENU, _ENTRIES = "boot/grub/grub.cfg", "boot/loader/entries"
_ENVIRONMENTS = ("boot/grub2/grubenv", "boot/grub/grubenv")
_CLOSED = "only root may read what the boot loader starts"
_BOOT_KERNEL = re.compile(r"^\s*linux(?:16|efi)?\s+\S*?vmlinuz-(\S+)", re.MULTILINE)
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
    for environment in _ENVIRONMENTS:
        if (root / environment).exists():
            return dict(
                re.findall(r"^(\w+)=(.*)$", (root / environment).read_text(errors="replace"), re.MULTILINE)
            )
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
    chosen = next((default for default in reversed(defaults) if default != "${next_entry}"), "0")
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
    entry = next((each for each in entries if name in each.titles), None)
    if entry is None and name.isdecimal() and int(name) < len(entries):
        return entries[int(name)]
    return entry


def _entries(text: str) -> list[_Entry]:
    top = _Entry()
    open_ = [top]
    for line in _outside_functions(text):
        words = _TITLE.match(line)
        kernel = _BOOT_KERNEL.match(line)
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


MOST = 12
"""Kernels whose modules are looked at, the newest ones."""
BUILT_IN = "built in"
_ROOT = Path("/")
_LOADED = "sys/module"
_RESTART = ("run/reboot-required", "var/run/reboot-required")
"""What packages of Debian and Ubuntu leave where a restart is due (update-notifier, unattended-upgrades)."""
_VERSIONED = re.compile(r"-\d+\.\d+")
_KERNEL = re.compile(r"\blinux-image(?:-unsigned)?-\d+\.\d+")
_DNF = ("etc/dnf/dnf.conf", "etc/yum.conf")
_LOCKS = ("etc/dnf/plugins/versionlock.list", "etc/yum/pluginconf.d/versionlock.list")
_OF_DNF = ("kernel", "kernel-core")


def kernels(root: Path = _ROOT) -> KernelsFacts:
    """All of it, as files below `root` tell it, with no command that could hang."""
    types = sorted(_types(root))
    startable = sorted(_startable(root), key=version_key, reverse=True)[:MOST]
    default, why = next_kernel(root)
    if default is not None and default not in startable:
        default, why = None, f"the boot loader is to start {default}, which is not there"
    return KernelsFacts(
        installed=[KernelFacts(each, _modules(root / "lib/modules" / each, types)) for each in startable],
        default=default,
        unknown_default=why if default is None else None,
        types=types,
        restart_asked=any((root / each).exists() for each in _RESTART),
        free=_free(root),
    )


def version_key(release: str) -> list[tuple[int, str]]:
    """What kernels are in order by: their numbers as numbers."""
    return [
        (int(number), "") if number else (-1, word) for number, word in re.findall(r"(\d+)|([a-z]+)", release)
    ]


def _types(root: Path) -> Iterator[str]:
    """File systems that the running kernel has by a module, one that is loaded or built in."""
    running = text_of(root / "proc/sys/kernel/osrelease") or "unknown"
    known = (line.split()[-1:] for line in (text_of(root / "proc/filesystems") or "").splitlines())
    names = [words[0] for words in known if words]
    has = _modules(root / "lib/modules" / running, names)
    for name in names:
        # A module that is loaded may be gone from the disk since.
        if has.get(name) == BUILT_IN or (root / _LOADED / name / "initstate").exists():
            yield name


def _startable(root: Path) -> Iterator[str]:
    """Those with a kernel, not modules alone that an earlier one has left."""
    for release in names_in(root / "lib/modules"):
        kernel = (root / "boot" / f"vmlinuz-{release}", root / "lib/modules" / release / "vmlinuz")
        if any(each.exists() for each in kernel):
            yield release


def _modules(directory: Path, types: Iterable[str]) -> dict[str, str]:
    """Where modules of these names are, as modprobe finds them: listed by depmod, and there.

    A link to the module of another kernel (weak-modules of Red Hat) counts as long as it leads to one.
    """
    listed = text_of(directory / "modules.dep") or ""
    built_in = text_of(directory / "modules.builtin") or ""
    found = {}
    for name in types:
        # File names have dashes where names of modules have underscores, now and then.
        file = re.escape(name).replace("_", "[_-]")
        path = re.search(rf"^((?:\S*/)?{file}\.ko(?:\.(?:gz|xz|zst))?):", listed, re.MULTILINE)
        if path and (directory / path[1]).exists():
            found[name] = path[1]
        elif re.search(rf"^(?:\S*/)?{file}\.ko$", built_in, re.MULTILINE):
            found[name] = BUILT_IN
    return found


def _free(root: Path) -> list[str] | None:
    """Packages that bring another kernel with the next update, since nobody holds them; None if not known."""
    status = text_of(root / "var/lib/dpkg/status")
    if status is not None:
        return sorted(_free_of_dpkg(status))
    conf = [text for each in _DNF if (text := text_of(root / each)) is not None]
    return _free_of_dnf(conf, root) if conf else None


def _free_of_dpkg(status: str) -> Iterator[str]:
    """Packages without a version in their name that need a kernel with one: linux-image-aws."""
    for paragraph in status.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Status|Depends): (.*)$", paragraph, re.MULTILINE))
        name, state = fields.get("Package", ""), fields.get("Status", "").split()
        if state[-1:] != ["installed"] or state[0] == "hold" or _VERSIONED.search(name):
            continue
        if _KERNEL.search(fields.get("Depends", "")):
            yield name


def _free_of_dnf(conf: Iterable[str], root: Path) -> list[str]:
    """The kernel, unless dnf.conf leaves it out or the plugin versionlock has a line for it."""
    left_out: list[str] = []
    for text in conf:
        for value in re.findall(r"^\s*exclude(?:pkgs)?\s*=((?:.*)(?:\n[ \t]+\S.*)*)", text, re.MULTILINE):
            left_out += re.findall(r"[^\s,]+", value)
    locks = "\n".join(text_of(root / lock) or "" for lock in _LOCKS)
    # Lines are NAME-EPOCH:VERSION-RELEASE.ARCH; those with ! leave a version out, and hold nothing.
    locked = re.findall(r"^(kernel(?:-core)?)-\d+:", locks, re.MULTILINE)
    return [
        name
        for name in _OF_DNF
        if name not in locked and not any(fnmatch.fnmatchcase(name, each) for each in left_out)
    ]
