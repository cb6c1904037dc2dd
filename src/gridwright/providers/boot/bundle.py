"""What machines set themselves up from, one archive under the name of its digest, and how they get on."""

from __future__ import annotations

import ast
import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import resources
from typing import Any, Literal

from gridwright.errors import GridwrightError, environment_error
from gridwright.schedulers.machines import SchedulerSetup
from gridwright.setup.distributions import distributions
from gridwright.setup.playbook import Hosts
from gridwright.spec.hosts import fold_hosts
from gridwright.spec.site_setup import MACHINES

# What machines have to know of distributions at their start, before they can read YAML.


def known_distributions(*, on_oci: bool = False) -> str:
    """A row of JSON for each distribution; one that is refused on AWS, or on Oracle Cloud, has its reason."""
    rows = [
        {
            "id": each.os.id,
            "version": each.os.version,
            "refused": None if (each.is_on_oci if on_oci else each.in_cloud) else each.reason,
            "ansible": each.built.ansible.packages if each.built else [],
        }
        for each in distributions()
    ]
    return "".join(["[\n", ",\n".join(f" {json.dumps(row)}" for row in rows), "\n]\n"])


# The text of user data: files that cloud-init writes, and a script that it runs at every start.

_BOUNDARY = "gridwright"


def here(path: str, content: str) -> str:
    """Shell that writes a file of root alone."""
    return f"(umask 077; cat > \"$root/{path}\") << 'END-OF-FILE'\n{content.rstrip()}\nEND-OF-FILE"


def multipart(script: str) -> str:
    """The script as a part that cloud-init runs at every start, not only at the first one.

    So that a machine which is stopped for an update sets itself up again with what is new (AWS, re:Post: run
    user data with every restart).
    """
    return (
        f'Content-Type: multipart/mixed; boundary="{_BOUNDARY}"\n'
        "MIME-Version: 1.0\n\n"
        f"--{_BOUNDARY}\n"
        'Content-Type: text/cloud-config; charset="us-ascii"\n\n'
        "#cloud-config\n"
        "preserve_hostname: true\n"
        "cloud_final_modules: [[scripts-user, always]]\n\n"
        f"--{_BOUNDARY}\n"
        'Content-Type: text/x-shellscript; charset="us-ascii"\n'
        'Content-Disposition: attachment; filename="gridwright.sh"\n\n'
        f"{script.rstrip()}\n\n"
        f"--{_BOUNDARY}--\n"
    )


# Programs as user data carry them: without the texts that only their readers need.
#
# User data are small, and compressing them would make their bytes depend on the library that compresses:
# other bytes make a machine anew.


def lean(source: str) -> str:
    """A Python program without docstrings, comments on lines of their own and blank lines.

    The same source gives the same text with every Python. Raises SyntaxError.
    """
    tree = ast.parse(source)
    lines: list[str | None] = list(source.splitlines())
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        texts = [each for each in body if _is_text(each)]
        for each in texts:
            first, last = each.lineno - 1, (each.end_lineno or each.lineno) - 1
            # A body needs a statement.
            lines[first] = " " * each.col_offset + "pass" if len(texts) == len(body) else None
            lines[first + 1 : last + 1] = [None] * (last - first)
    inside = _inside_texts(tree)
    kept = [
        line
        for number, line in enumerate(lines, start=1)
        if line is not None and (number in inside or (line.strip() and not line.lstrip().startswith("# ")))
    ]
    return "\n".join(kept) + "\n"


def _is_text(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _inside_texts(tree: ast.AST) -> set[int]:
    """Lines of texts that go over several lines: what looks like a comment there is none."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Constant, ast.JoinedStr)) and (node.end_lineno or 0) > node.lineno:
            found |= {*range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    return found


Part = Literal["nodes", "servers"]
"""Login, head and compute nodes set themselves up from one bundle, servers of file systems from another one:
what only jobs need changes nothing on servers."""
PREFIX = "bundles/"
"""Of keys in the site bucket that machines may read."""
LOGS = "boot-logs/"
"""Of keys that machines put the logs of tries under that failed; their instance's ID follows."""


def pointer(part: Part) -> str:
    """Key of the object, in the site bucket, that names the bundle of a part."""
    return f"{PREFIX}current/{part}"


@dataclass(frozen=True, slots=True)
class Bundle:
    """A gzipped tar archive."""

    key: str
    """Its key in the site bucket, which has the SHA-256 of the content: machines check it."""
    content: bytes


def bundle(files: Mapping[str, str | bytes]) -> Bundle:
    """These files, by their path; the same files give the same bytes."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in sorted(files):
            text = files[name]
            content = text.encode() if isinstance(text, str) else text
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    content = gzip.compress(raw.getvalue(), mtime=0)
    return Bundle(f"{PREFIX}{hashlib.sha256(content).hexdigest()}.tar.gz", content)


# What is in bundles: the programs of a machine's start, and all that the playbook needs.

NODES, SERVERS = ("compute", "head", MACHINES), ("storage",)
"""Groups of the machines of each part: a role of the site is in the bundle of those that run it."""


@cache
def boot_file(cloud: str, name: str) -> str:
    """A file of what machines begin with: that of a cloud, by its package, or the one that all have."""
    own = resources.files(f"gridwright.providers.{cloud}.boot").joinpath(name)
    if own.is_file():
        return own.read_text("ascii")
    return resources.files("gridwright.providers.boot").joinpath(name).read_text("ascii")


def boot_files(
    cloud: str, programs: Iterable[str], variables: Mapping[str, Any], *, on_oci: bool = False
) -> dict[str, str]:
    """Programs that machines run from their bundle, and what these tell the playbook, by path."""
    return {
        **{f"boot/{name}": boot_file(cloud, name) for name in programs},
        "boot/variables.json": json.dumps(variables, indent=2) + "\n",
        "boot/distributions.json": known_distributions(on_oci=on_oci),
    }


@dataclass(frozen=True)
class MachineFiles:
    """What machines of a cloud set themselves up from. Files are by their path."""

    files: Mapping[str, str | bytes]
    """All that `render` shows: the playbook for all machines, with what sets up their scheduler."""
    parts: Mapping[Part, Mapping[str, str | bytes]]
    """What machines of each part set themselves up from."""
    scheduler: SchedulerSetup
    hosts: Hosts

    @cached_property
    def bundles(self) -> Mapping[Part, Bundle]:
        """An archive of each part, packed when it is first asked for: that takes longest."""
        return {part: bundle(content) for part, content in self.parts.items()}


RESTARTING = "restarting"
"""How the reason begins that a machine gives while it restarts (boot/set_up.py)."""
QUIET_S = 3600.0
"""So long nothing may be heard of any machine: each tells every ten minutes that it goes on."""
FAILED_TRIES = 3
"""After so many tries a machine counts as failed, though it goes on: what passes by itself has passed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BootReport:
    """How a machine got on with a bundle."""

    name: str
    """Empty before the machine has claimed one."""
    instance: str
    """Its ID in the cloud."""
    state: str
    """running, done or failed."""
    bundle: str
    tries: int
    reason: str
    """Why it failed, or what it is at: restarting for a kernel."""
    log: str
    """The last lines of the log of a try that failed."""
    at: str
    """When it was told, as 2026-11-23T09:15:00Z; empty where that is not known."""

    def is_of(self, instance: str | None, bundle: str | None) -> bool:
        """Whether it is of this instance and this bundle: an earlier machine of the name may have told it."""
        return (self.instance, self.bundle) == (instance, bundle)

    @property
    def who(self) -> str:
        """The machine, as people know it."""
        return self.name or self.instance

    @property
    def restarts(self) -> str:
        """For what it restarts; empty where it does not."""
        return self.reason if self.reason.startswith(RESTARTING) else ""

    @property
    def has_failed(self) -> bool:
        """Whether it is not waited for any more."""
        return self.state == "failed" and self.tries >= FAILED_TRIES

    @property
    def text(self) -> str:
        """In a few words."""
        if self.state == "done":
            return "done"
        if self.state == "running" and self.reason:
            return self.reason
        return (
            self.state if self.state == "running" and self.tries == 1 else f"{self.state}, try {self.tries}"
        )

    @property
    def news(self) -> str | None:
        """What is said of it while machines are waited for; None where that is nothing."""
        if self.state == "done":
            return f"{self.name}: is set up"
        if self.restarts:
            return f"{self.who}: {self.restarts}"
        return f"{self.who}: try {self.tries} failed: {self.reason}" if self.state == "failed" else None


class BootNews:
    """What machines tell while they are waited for: each thing of it is said once."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._said: set[tuple[str, str, int, str]] = set()
        self._at: dict[str, str] = {}
        """When each was last heard of."""

    def hear(self, reports: Iterable[BootReport | None]) -> bool:
        """Say what is new; whether anything was heard."""
        new = False
        for each in reports:
            if each is None:
                continue
            new |= self._at.get(each.instance) != each.at
            self._at[each.instance] = each.at
            if (told := (each.instance, each.state, each.tries, each.restarts)) in self._said:
                continue
            self._said.add(told)
            new = True
            if each.news:
                self._say(each.news)
        return new


def unready(failed: Sequence[BootReport], silent: Sequence[str], quiet_s: float) -> list[str]:
    """What is wrong with machines that are not set up: some that failed, and those that tell nothing."""
    return [
        *(f"{each.who}: {each.reason}" for each in failed[:3]),
        *([f"{len(failed) - 3} more failed"] if len(failed) > 3 else []),
        *([f"{fold_hosts(silent)} told nothing for {quiet_s / 60:.0f} min"] if silent else []),
    ]


def not_set_up(count: str, reasons: Sequence[str], where: str, look: str) -> GridwrightError:
    """The error of machines that are not set up, `count` in words; `look` says where else to look."""
    return environment_error(
        f"{count} machines are not set up: {'; '.join(reasons)}",
        where=where,
        remedy="mend what the log says and run gridwright up again: they go on trying, and the other "
        f"machines stay as they are{look}",
    )


def go_on(count: int) -> str:
    """What is said where so many machines are not waited for any more."""
    return (
        f"{count} machines go on setting themselves up; gridwright status shows how far they are, and "
        "gridwright up waits for them"
    )
