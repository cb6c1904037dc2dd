"""The site's own licensed packages of Spectrum Scale, as the grid spec names them, and rules of these."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from gridwright.spec.fields import Change, Directory, SpecModel, Update
from gridwright.spec.provider import ProviderKind
from gridwright.yamltext.fields import FieldError, matching
from gridwright.yamltext.source import show

_FIRST = Update(Change.LIVE, "nodes without Scale install them; those that have it keep what they have")
SUFFIXES = (".rpm", ".deb")
_WAYS = ("path", "url", "url_from")
_PRE_AUTHENTICATED = re.compile(r"/p/[A-Za-z0-9_-]{20,}/n/")
"""Links of OCI's Object Storage that open by themselves (its user's guide, pre-authenticated requests)."""

_Problem = tuple[tuple[str, ...], FieldError]


class ScalePackage(SpecModel):
    """One package: a file, or where nodes fetch it from."""

    path: Annotated[Directory | None, _FIRST] = Field(
        default=None,
        description="A file on the machine that runs setup, which copies it to nodes. A relative path "
        "starts at the directory of the grid spec. Not on clouds, where nodes set themselves up.",
    )
    url: Annotated[
        str | None,
        matching(r"^https?://[^\s]{1,2000}$", "an address of a package", "one, such as https://depot/g.rpm"),
        _FIRST,
    ] = Field(default=None, description="Where each node fetches it, which nobody has to keep secret.")
    url_from: Annotated[
        str | None,
        matching(r"^[A-Z][A-Z0-9_]{0,63}$", "a name of an environment variable", "one, such as SCALE_BASE"),
        _FIRST,
    ] = Field(
        default=None,
        description="The environment variable, where setup runs, that has a secret address of it, such as "
        "a pre-authenticated link. It is in no file and in no log. Not on clouds.",
    )
    sha256: Annotated[
        str | None,
        matching(r"^[0-9a-f]{64}$", "a SHA-256", "what sha256sum prints, 64 letters and digits"),
        _FIRST,
    ] = Field(default=None, description="Of the file; required where it is fetched.")


def package_problems(fields: Mapping[str, Any]) -> Iterator[_Problem]:
    """One way to each, a checksum for what is fetched, no secret, and one format."""
    given = fields.get("packages")
    suffixes: dict[str, str] = {}
    for number, each in enumerate(given) if isinstance(given, list) else ():
        at = ("packages", str(number))
        if not isinstance(each, Mapping):
            continue
        ways = [name for name in _WAYS if each.get(name) is not None]
        if len(ways) != 1:
            yield (
                at,
                FieldError(
                    f"{' and '.join(ways)} are two ways to it" if ways else "nothing says where it is",
                    "write one of path, url and url_from",
                ),
            )
        elif ways != ["path"] and each.get("sha256") is None:
            yield (
                at,
                FieldError(
                    "it runs as root on every node, and nothing says which file it is",
                    "add sha256: with what sha256sum prints of it",
                ),
            )
        for name in ("path", "url"):
            if isinstance(each.get(name), str):
                yield from _named(at, name, each[name], suffixes)
        if isinstance(each.get("url"), str) and _opens_by_itself(each["url"]):
            yield (
                (*at, "url"),
                FieldError(
                    "an address that opens by itself is a secret, and a grid spec holds none",
                    "write url_from: SCALE_BASE, and set that variable where setup runs",
                ),
            )


def _named(at: tuple[str, ...], name: str, written: str, suffixes: dict[str, str]) -> Iterator[_Problem]:
    path = written.partition("?")[0]
    suffix = next((each for each in SUFFIXES if path.endswith(each)), None)
    if suffix is None:
        yield (
            (*at, name),
            FieldError(
                f"{show(path.rpartition('/')[2] or path)} is no package: IBM's installer is unpacked first",
                "run the installer with --dir and --silent, and name the .rpm or .deb files in there",
            ),
        )
    elif suffixes and suffix not in suffixes:
        other = next(iter(suffixes))
        yield (*at, name), FieldError(f"{suffix} beside {other}: nodes install one of them", f"write {other}")
    if suffix is not None:
        suffixes.setdefault(suffix, written)


def _opens_by_itself(url: str) -> bool:
    """Whether it has a query (signatures), an account, or the token of a pre-authenticated request."""
    host = url.partition("://")[2].partition("/")[0]
    return "?" in url or "@" in host or _PRE_AUTHENTICATED.search(url) is not None


def packages_of_cloud(fields: Mapping[str, Any], provider: ProviderKind) -> Iterator[_Problem]:
    """Machines of a cloud set themselves up: nobody copies a file to them or has a variable for them."""
    given = fields.get("packages")
    for number, each in enumerate(given) if isinstance(given, list) and provider.is_cloud else ():
        for name in ("path", "url_from"):
            if isinstance(each, Mapping) and each.get(name) is not None:
                yield (
                    ("packages", str(number), name),
                    FieldError(
                        f"machines of provider {provider.name} set themselves up, and do not have it",
                        "write url: with an address in your network and sha256:, or leave packages out and "
                        "have Scale in the image",
                    ),
                )


def playbook_packages(packages: list[ScalePackage]) -> list[dict[str, str]]:
    """What the role reads of them."""
    return [
        {name: str(value) for name, value in package.model_dump(exclude_none=True).items()}
        for package in packages
    ]
