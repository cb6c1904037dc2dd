"""Installs a product from a depot with a plan file, once: again only where one of them is another one.

The depot is a directory, or `s3://BUCKET/DIRECTORY`, which is copied first; boto3 reads it with the role of
the machine. What was installed is known by a digest of the depot's files, the plan and the arguments, in the
file `.installed` of the product. It prints `installed` or `as it was`; the installer's own words go into
`NAME.install.log` beside the product. Exit status 3 where it failed, with the last of these words. It needs
Python 3.9.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import pwd
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LAST_LINES = 12
FAILED = 3


class NotInstalled(Exception):
    """Why not, in words."""


@dataclass(frozen=True)
class File:
    """A file of the depot: its path there, and what tells it from another version."""

    path: str
    size: int
    version: str


def files_of_directory(depot: Path) -> list[File]:
    """All files below a directory."""
    if not depot.is_dir():
        raise NotInstalled(f"there is no depot {depot}")
    found = []
    for each in sorted(depot.rglob("*")):
        if each.is_file():
            status = each.stat()
            found.append(File(str(each.relative_to(depot)), status.st_size, str(status.st_mtime_ns)))
    return found


class Bucket:
    """A depot in a bucket."""

    def __init__(self, depot: str) -> None:
        import boto3
        from botocore.config import Config

        self.name, _, below = depot[len("s3://") :].partition("/")
        self.prefix = f"{below.rstrip('/')}/" if below.rstrip("/") else ""
        config = Config(connect_timeout=10, read_timeout=60, retries={"max_attempts": 8, "mode": "standard"})
        self.client: Any = boto3.client("s3", config=config)

    def files(self) -> list[File]:
        """Its objects below the prefix, by their path there."""
        found = []
        for page in self.client.get_paginator("list_objects_v2").paginate(
            Bucket=self.name, Prefix=self.prefix
        ):
            for each in page.get("Contents", ()):
                path = each["Key"][len(self.prefix) :]
                if not path or path.endswith("/"):  # marks of directories
                    continue
                if path.startswith("/") or ".." in path.split("/"):
                    raise NotInstalled(f"object {each['Key']} would leave the copy of the depot")
                found.append(File(path, int(each["Size"]), str(each["ETag"])))
        if not found:
            raise NotInstalled(f"there is nothing in s3://{self.name}/{self.prefix}")
        return sorted(found, key=lambda each: each.path)

    def copy(self, files: Sequence[File], to: Path) -> None:
        """Bring a copy up to date: what is there in the same version is left, what is gone is removed."""
        listed = to / ".depot.json"
        try:
            before: dict[str, str] = json.loads(listed.read_text())
        except (OSError, ValueError):
            before = {}
        to.mkdir(parents=True, exist_ok=True)
        for each in files:
            target = to / each.path
            there = target.is_file() and target.stat().st_size == each.size
            if there and before.get(each.path) == each.version:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_name(f".{target.name}.part")
            self.client.download_file(self.name, self.prefix + each.path, str(part))
            part.chmod(0o755)  # objects have no modes, and installers start programs of the depot
            part.replace(target)
        wanted = {each.path for each in files}
        for each in [path for path in to.rglob("*") if path.is_file()]:
            if each != listed and str(each.relative_to(to)) not in wanted:
                each.unlink()
        write(listed, json.dumps({each.path: each.version for each in files}))


def write(path: Path, text: str) -> None:
    """A file, whole or not at all."""
    descriptor, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    with os.fdopen(descriptor, "w") as file:
        os.fchmod(file.fileno(), 0o644)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    Path(part).replace(path)


def digest(files: Sequence[File], plan: bytes, arguments: Sequence[str]) -> str:
    """Of all that decides what is installed."""
    known = [[each.path, each.size, each.version] for each in files]
    text = json.dumps([known, hashlib.sha256(plan).hexdigest(), list(arguments)])
    return hashlib.sha256(text.encode()).hexdigest()


def run_installer(command: Sequence[str], user: str, log: Path, limit_s: float) -> None:
    """Run it as the account, with a limit of time. Raises NotInstalled with its last words."""
    try:
        account = pwd.getpwnam(user)
    except KeyError:
        raise NotInstalled(f"there is no account {user}") from None
    as_user: dict[str, Any] = {}
    if account.pw_uid != os.geteuid():
        groups = os.getgrouplist(user, account.pw_gid)
        as_user = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": groups}
    environment = {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "HOME": account.pw_dir,
        "LC_ALL": "C.UTF-8",
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment,
            cwd=Path(command[0]).parent, start_new_session=True, **as_user,
        )  # fmt: skip
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if status != 0:
        how = f"had not ended after {limit_s:.0f} s" if status is None else f"ended with status {status}"
        raise NotInstalled("\n".join([f"{Path(command[0]).name} {how}; see {log}", *last_lines(log)]))


def last_lines(log: Path) -> Iterator[str]:
    """The end of what an installer printed."""
    yield from log.read_text(errors="replace").splitlines()[-LAST_LINES:]


def install(given: argparse.Namespace) -> bool:
    """Install it where it is not, or is another one; whether that was so. Raises NotInstalled, OSError."""
    directory = Path(given.directory)
    marker = directory / ".installed"
    bucket = Bucket(given.depot) if given.depot.startswith("s3://") else None
    files = bucket.files() if bucket else files_of_directory(Path(given.depot))
    plan = Path(given.plan)
    wanted = digest(files, plan.read_bytes(), given.command)
    if marker.is_file() and marker.read_text().strip() == wanted:
        return False
    if given.check:
        return True
    depot = directory.with_name(f"{directory.name}.depot") if bucket else Path(given.depot)
    directory.mkdir(parents=True, exist_ok=True)
    if bucket:
        bucket.copy(files, depot)
    account = pwd.getpwnam(given.user)
    if account.pw_uid != os.geteuid():
        os.chown(directory, account.pw_uid, account.pw_gid)
    places = {"DIRECTORY": str(directory), "DEPOT": str(depot), "PLAN": str(plan)}
    installer, *arguments = given.command
    command = [str(depot / installer), *(places.get(each, each) for each in arguments)]
    # A run that is killed from here on begins anew.
    marker.unlink(missing_ok=True)
    run_installer(command, given.user, directory.with_name(f"{directory.name}.install.log"), given.timeout)
    write(marker, wanted + "\n")
    return True


def main() -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(description="Install a product from a depot, once.")
    parser.add_argument("--depot", required=True)
    parser.add_argument("--directory", required=True)
    parser.add_argument("--plan", required=True)
    parser.add_argument("--user", default="root")
    parser.add_argument("--timeout", type=float, default=7200.0)
    parser.add_argument("--check", action="store_true", help="say whether it would be installed")
    parser.add_argument("command", nargs="+", help="the installer within the depot, and its arguments")
    given = parser.parse_args()
    try:
        done = install(given)
    except NotInstalled as error:
        sys.stderr.write(f"{error}\n")
        return FAILED
    except Exception as error:  # boto3 has its errors in modules that may not be there
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return FAILED
    sys.stdout.write(
        "would be installed\n" if done and given.check else "installed\n" if done else "as it was\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
