"""Flags of verbs that serve something on a port."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gridwright.cli.arguments import read_path

if TYPE_CHECKING:
    from gridwright.services.listening import Listening

TOKEN_VARIABLE = "GRIDWRIGHT_TOKEN"  # noqa: S105 - the name of a variable


@dataclass(frozen=True)
class ListeningFlags:
    """Where a service listens, and who is let in."""

    listen: Annotated[
        str, typer.Option("--listen", metavar="ADDRESS", help="An IP address of this machine.")
    ] = "127.0.0.1"
    certificate: Annotated[
        Path | None,
        typer.Option("--certificate", metavar="PATH", parser=read_path, help="For TLS: PEM, with its chain."),
    ] = None
    key: Annotated[
        Path | None, typer.Option("--key", metavar="PATH", parser=read_path, help="Its key, as PEM.")
    ] = None
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="PATH",
            parser=read_path,
            help=f"What every request must have; else the variable {TOKEN_VARIABLE}.",
        ),
    ] = None
    proxy: Annotated[
        list[str] | None,
        typer.Option(
            "--proxy", metavar="ADDRESS", help="The site's proxy, which alone may connect; repeat it."
        ),
    ] = None
    proxy_header: Annotated[
        str | None,
        typer.Option("--proxy-header", metavar="NAME", help="The header in which the proxy has the token."),
    ] = None


def listening_at(flags: ListeningFlags, port: int, *, has_sessions: bool = False) -> Listening:
    """Where to listen; see `ListeningChoice`. Raises GridwrightError (INPUT) with all that is wrong."""
    from gridwright.services.listening import ListeningChoice, listening_of

    return listening_of(
        ListeningChoice(
            address=flags.listen,
            port=port,
            certificate=flags.certificate,
            key=flags.key,
            token_file=flags.token_file,
            token=os.environ.get(TOKEN_VARIABLE),
            proxies=flags.proxy or [],
            proxy_header=flags.proxy_header,
            has_sessions=has_sessions,
        )
    )


def listening_words(flags: ListeningFlags, port: int) -> list[str]:
    """The same flags as words of a unit, with every path from / on."""
    words = ["--port", str(port), "--listen", flags.listen]
    for name, path in (
        ("--certificate", flags.certificate),
        ("--key", flags.key),
        ("--token-file", flags.token_file),
    ):
        words += [] if path is None else [name, str(path.absolute())]
    for proxy in flags.proxy or []:
        words += ["--proxy", proxy]
    return words + ([] if flags.proxy_header is None else ["--proxy-header", flags.proxy_header])


def program() -> str:
    """The path of this command, for who starts it elsewhere."""
    return shutil.which("gridwright") or str(Path(sys.argv[0]).absolute())
