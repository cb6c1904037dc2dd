"""Distributions of Linux: what is known of each, from one table that the playbook reads, too."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

FILE = "distributions.yaml"
_HEAD = "gridwright_"


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AnsibleOf(_Row):
    """The release of ansible-core that a platform packages, and the packages; none where it is too old."""

    release: str
    packages: list[str]


class SlurmOf(_Row):
    """Where Slurm comes from; `site` where the site has to name a repository, with the reason."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    origin: Literal["distribution", "epel", "site"]
    release: str | None = None
    why: str | None = None


class LustreOf(_Row):
    """The repository with AWS's client of Lustre for a platform, and the key that signs it."""

    repository: str
    key: str


class Platform(_Row):
    """What distributions share that are built alike."""

    family: Literal["Debian", "RedHat"]
    ansible: AnsibleOf
    boto3: Literal["apt", "pip"]
    """How machines on AWS get it: as a package, or from PyPI into a Python environment of its own."""
    slurm: SlurmOf
    lustre: LustreOf | None = None
    source: str


class OsRelease(_Row):
    """ID of os-release(5), and what VERSION_ID is or begins with, up to a dot."""

    id: str
    version: str


class ImageOf(_Row):
    """How images of EC2 are found: their owner, and a pattern of names with {arch} in it.

    `arch` is the word for x86_64; that for arm64 is arm64 for Ubuntu and Debian, else as EC2 or uname has it.
    """

    owner: str
    pattern: str
    arch: Literal["amd64", "x86_64"]

    def names(self, architecture: str) -> str:
        """The pattern for machines of an architecture, as EC2 calls it: x86_64, arm64."""
        if architecture == "x86_64":
            return self.pattern.replace("{arch}", self.arch)
        kernel_word = self.owner in _BY_UNAME
        return self.pattern.replace("{arch}", "aarch64" if kernel_word else "arm64")


_BY_UNAME = frozenset({"792107900819", "764336703387"})
"""Owners whose names of images say aarch64: Rocky Linux and AlmaLinux (their lists of images)."""


class Distribution(_Row):
    """A distribution, and whether machines on AWS and Oracle Cloud may have it."""

    name: str
    title: str
    os: OsRelease
    platform: str | None = None
    in_cloud: bool
    reason: str | None = None
    """Why not, where they may not."""
    on_oci: bool | None = None
    """Whether machines on Oracle Cloud may have it, where that is otherwise than on AWS."""
    user: str
    """Who logs in with the key pair."""
    oci_user: str | None = None
    """The same on Oracle Cloud, where it is another one."""
    root_device: str
    image: ImageOf | None = None
    """None where Gridwright knows none on EC2."""
    parameter: str | None = None
    """What names of SSM parameters begin with by which its images are published."""
    crb: str | None = None
    """The repository beside EPEL, disabled at first, that packages of EPEL need; may be a pattern."""
    tried: str
    source: str

    @property
    def is_on_oci(self) -> bool:
        """Whether machines on Oracle Cloud may have it."""
        return self.in_cloud if self.on_oci is None else self.on_oci

    @property
    def built(self) -> Platform | None:
        """What it shares with others; None where nothing is known, as it is not supported."""
        return None if self.platform is None else platforms()[self.platform]


@cache
def distributions() -> tuple[Distribution, ...]:
    """All of them, in the order of the table."""
    return tuple(Distribution.model_validate(each) for each in _table()[f"{_HEAD}distributions"])


@cache
def platforms() -> Mapping[str, Platform]:
    """What alike distributions share, by name."""
    found = {}
    for name, row in _table()[f"{_HEAD}platforms"].items():
        slurm = {("origin" if key == "from" else key): value for key, value in row["slurm"].items()}
        found[name] = Platform.model_validate({**row, "slurm": slurm})
    return found


def distribution(name: str) -> Distribution:
    """By its name in the table. Raises KeyError."""
    return {each.name: each for each in distributions()}[name]


def of_os_release(identity: str, version: str) -> Distribution | None:
    """By ID and VERSION_ID of os-release(5); None where the table has none."""
    for each in distributions():
        if each.os.id == identity and (
            version == each.os.version or version.startswith(f"{each.os.version}.")
        ):
            return each
    return None


def of_parameter(parameter: str) -> Distribution | None:
    """By the name of an SSM parameter that holds an image; None where it is not a public one."""
    known = [each for each in distributions() if each.parameter and parameter.startswith(each.parameter)]
    return known[0] if known else None


def of_image(name: str, owner: str) -> Distribution | None:
    """By name and owner of an image of EC2; None for images that somebody has made of others."""
    for each in distributions():
        if each.image is None:
            continue
        patterns = (each.image.names(architecture) for architecture in ("x86_64", "arm64"))
        if owner == each.image.owner and any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
            return each
    return None


def distributions_text() -> str:
    """The table as it is, for the playbook."""
    return resources.files("gridwright.setup").joinpath(FILE).read_text("utf-8")


@cache
def _table() -> dict[str, Any]:
    import yaml  # type: ignore[import-untyped]

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    table: dict[str, Any] = yaml.load(distributions_text(), Loader=loader)  # noqa: S506 - it is a safe one
    return table
