"""What Lustre's metadata servers keep for others, and what is wrong there: changelogs, coordinators of HSM.

`mdd.*.changelog_users` has the last index and a line for each user: its index, for how many seconds it has
cleared nothing, and what it asks for (recordings 501, 505, 508; `mdd_changelog_users_seq_show` of
lustre/mdd/mdd_lproc.c). Releases before 2.15 write `current index`, and no names. Records are kept for the
slowest user; Lustre removes one that is idle for long (`mdd.*.changelog_max_idle_time`).

Each MDT has a coordinator: `mdt.*.hsm_control` is its state, and `mdt.*.hsm.agents` has a line for each
copytool (Lustre Operations Manual, chapter 26; recordings 601, 605, 617). Only `enabled` hands out actions.
An agent that serves all archives has `ANY` in the place of numbers (lustre/mdt/mdt_hsm_cdt_agent.c). Which
files an archive knows is asked of `lfs hsm_state` for the few that matter: no recording shows that a client
is told `trusted.hsm`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gridwright.errors import Finding
from gridwright.filesystems.health import Run
from gridwright.filesystems.lustre_client.parameters import Parameters, read_parameters

_DEVICE = re.compile(r"mdd\.([^.]+)\.changelog_users")
_INDEX = re.compile(r"^current[ _]index: (\d+)", re.MULTILINE)
_USER = re.compile(r"^(cl\d+)(?:-(\S+))?\s+(\d+)(?:\s+\((\d+)\))?", re.MULTILINE)
IDLE_S = 86_400
"""An export by changelogs takes records each time; one a day is the rarest schedule."""
STRANGER_IDLE_S = 7 * 86_400
MANY_RECORDS = 10_000_000
"""Some gigabytes of an MDT."""
_SOME_RECORDS = 100_000
"""Below that a user that nobody knows does no harm."""


@dataclass(frozen=True, slots=True)
class ChangelogUserAtMdt:
    """One user at one MDT."""

    number: str
    """`cl3`."""
    name: str
    """Empty for one without."""
    index: int
    """The last record that it has cleared."""
    idle_s: int

    @property
    def full_name(self) -> str:
        """As Lustre shows it."""
        return f"{self.number}-{self.name}" if self.name else self.number

    @property
    def flag(self) -> str:
        """As lctl changelog_deregister takes it."""
        return f"-u {self.name}" if self.name else self.number


@dataclass(frozen=True, slots=True)
class RetainedChangelog:
    """The changelog of one MDT."""

    target: str
    index: int
    size_bytes: int | None
    users: Sequence[ChangelogUserAtMdt]

    def behind(self, user: ChangelogUserAtMdt) -> int:
        """How many records are kept for a user."""
        return max(0, self.index - user.index)


def parameter_names(name: str) -> tuple[str, str]:
    """The parameters that tell of the changelogs of file system `name`."""
    return f"mdd.{name}-MDT*.changelog_users", f"mdd.{name}-MDT*.changelog_size"


def read_changelogs(run: Run, name: str) -> list[RetainedChangelog]:
    """The changelogs of MDTs on this node; none where it serves none.

    Takes root. Raises GridwrightError (status ENVIRONMENT) where lctl is not there or does not answer.
    """
    return parse_changelogs(read_parameters(run, parameter_names(name)))


def parse_changelogs(told: Parameters) -> list[RetainedChangelog]:
    """The changelogs out of what was read."""
    found = []
    for name, text in told.values.items():
        device, index = _DEVICE.fullmatch(name), _INDEX.search(text)
        if device is None or index is None:
            continue
        users = [
            ChangelogUserAtMdt(number, own, int(at), int(idle or 0))
            for number, own, at, idle in _USER.findall(text)
        ]
        size = told.number(f"mdd.{device[1]}.changelog_size")
        found.append(RetainedChangelog(device[1], int(index[1]), size, users))
    return sorted(found, key=lambda each: each.target)


def retention_findings(changelogs: Sequence[RetainedChangelog], names: Collection[str]) -> Iterator[Finding]:
    """What keeps records on metadata servers, or keeps changes from exports.

    `names` are those that repositories of the grid are registered under.
    """
    for changelog in changelogs:
        there = {user.name: user for user in changelog.users if user.name}
        missing = sorted(set(names) - set(there))
        if missing:
            yield Finding(
                "warning",
                "changelog-user-missing",
                f"{changelog.target} has no changelog user {', '.join(missing)}: exports look at all files",
                "gridwright setup registers it. Lustre removes users that are idle for long; look why "
                "exports do not run: systemctl list-timers 'gridwright-export-*'",
            )
        for user in changelog.users:
            yield from _of_user(changelog, user, is_ours=user.name in names)


def _of_user(changelog: RetainedChangelog, user: ChangelogUserAtMdt, *, is_ours: bool) -> Iterator[Finding]:
    behind = changelog.behind(user)
    size = f"; the log takes {changelog.size_bytes / 1e6:.0f} MB" if changelog.size_bytes else ""
    kept = f"{changelog.target} keeps {behind} records for {user.full_name}, idle for {user.idle_s} s{size}"
    if is_ours and behind and (user.idle_s >= IDLE_S or behind >= MANY_RECORDS):
        yield Finding(
            "warning",
            "changelog-behind",
            f"{kept}: no export takes them",
            "Look why exports do not run: systemctl list-timers 'gridwright-export-*', journalctl -u "
            "gridwright-export-NAME. If the repository is not exported any more: remove by: changelog, and "
            "run gridwright setup",
        )
    if not is_ours and behind >= _SOME_RECORDS and user.idle_s >= STRANGER_IDLE_S:
        yield Finding(
            "warning",
            "changelog-user-unknown",
            f"{kept}: no repository of this grid is registered so",
            f"Ask who reads changelogs (robinhood, another grid); if nobody does: lctl --device "
            f"{changelog.target} changelog_deregister {user.flag}",
        )


ENABLED = "enabled"
_AGENT = re.compile(r"^uuid=\S+ archive_id=(ANY|[0-9,]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class HsmCoordinator:
    """The coordinator of one MDT."""

    target: str
    control: str
    archives: frozenset[int]
    """Archives that a copytool is registered for."""
    serves_any: bool
    """Whether a copytool is registered for all archives."""

    def has_agent(self, archive: int) -> bool:
        """Whether somebody brings files of an archive."""
        return self.serves_any or archive in self.archives


def coordinator_parameters(name: str) -> tuple[str, str]:
    """The parameters that tell of the coordinators of file system `name`."""
    return f"mdt.{name}-MDT*.hsm_control", f"mdt.{name}-MDT*.hsm.agents"


def read_coordinators(run: Run, name: str) -> list[HsmCoordinator]:
    """The coordinators on this node; none where it serves no MDT.

    Takes root. Raises GridwrightError (status ENVIRONMENT) where lctl is not there or does not answer.
    """
    return parse_coordinators(read_parameters(run, coordinator_parameters(name)))


def parse_coordinators(told: Parameters) -> list[HsmCoordinator]:
    """The coordinators out of what was read."""
    found = []
    for name, control in told.values.items():
        device = re.fullmatch(r"(mdt\.([^.]+))\.hsm_control", name)
        if device is None:
            continue
        agents = _AGENT.findall(told.values.get(f"{device[1]}.hsm.agents", ""))
        numbers = {int(each) for agent in agents for each in agent.split(",") if each.isdigit()}
        found.append(HsmCoordinator(device[2], control.strip(), frozenset(numbers), "ANY" in agents))
    return sorted(found, key=lambda each: each.target)


def coordinator_findings(
    coordinators: Sequence[HsmCoordinator], archives: Collection[int]
) -> Iterator[Finding]:
    """What keeps readers of repositories waiting; `archives` are those of the repositories of the grid."""
    if not archives:
        return
    off = [f"{each.target} ({each.control})" for each in coordinators if each.control != ENABLED]
    if off:
        yield Finding(
            "error",
            "hsm-off",
            f"HSM is off: {', '.join(off)}. Nobody is asked to bring what is read of a repository",
            "lctl set_param -P mdt.*.hsm_control=enabled on the management server",
        )
    for archive in sorted(archives):
        lonely = [each.target for each in coordinators if not each.has_agent(archive)]
        if lonely:
            yield Finding(
                "error",
                "no-copytool",
                f"no copytool of archive {archive} is registered at {', '.join(lonely)}: whoever reads a "
                "released file waits until one is",
                "Start an agent: gridwright repo serve NAME; as a service: systemctl start "
                "gridwright-serve-FILESYSTEM, which gridwright setup installs",
            )


LIMIT_S = 60.0
"""For some tens of files."""
RELEASED = 0x4
"""HS_RELEASED of lustre_user.h: the bytes are in the archive only."""


def archive_states(run: Run, paths: Sequence[str], *, timeout_s: float = LIMIT_S) -> Mapping[str, int]:
    """Flags of each path; of what is gone, or of which nothing is told, there is none.

    Raises GridwrightError (status ENVIRONMENT) where nothing answers.
    """
    asked = set(paths)
    text = run(["lfs", "hsm_state", *paths], timeout_s=timeout_s).stdout.decode(errors="surrogateescape")
    found: dict[str, int] = {}
    for line in text.splitlines():
        path, colon, rest = line.rpartition(": (0x")
        flags = re.match(r"([0-9a-f]{1,8})\)", rest)
        if colon and path in asked and flags:
            found[path] = int(flags[1], 16)
    return found
