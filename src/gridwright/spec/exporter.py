"""Who may ask machines of a grid what they do: the section `monitoring.exporter` of the grid spec."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field, PlainValidator, WithJsonSchema

from gridwright.spec.fields import Change, SpecModel, Update
from gridwright.yamltext.fields import FieldError, matching
from gridwright.yamltext.source import show

_RESTARTED = Update(Change.LIVE, "the service starts anew on each machine, and jobs go on")
_OF_ONE_MACHINE = ("127.0.0.1", "::1")
_OF_ALL = ("0.0.0.0", "::")  # noqa: S104 - only with a token, and TLS or a proxy
_FILE_PATTERN = r"^/[!-~]{1,1023}$"
_HEADER_PATTERN = r"^[A-Za-z0-9](?:[A-Za-z0-9-]{0,63})$"


def _listened(value: object) -> str:
    if value in (*_OF_ONE_MACHINE, *_OF_ALL):
        return str(value)
    raise FieldError(
        f"{show(value)} is not an address that every machine of a grid has",
        "write 0.0.0.0 (all addresses of IPv4), :: (all), 127.0.0.1 or ::1 (each machine itself)",
    )


def _proxy(value: object) -> str:
    try:
        text = value if isinstance(value, str) else ""
        ipaddress.ip_network(text)
        return text
    except ValueError:
        raise FieldError(
            f"{show(value)} is no address", "write one, such as 10.0.0.5, or a network: 10.0.0.0/28"
        ) from None


Listened = Annotated[
    str, PlainValidator(_listened), WithJsonSchema({"enum": [*_OF_ONE_MACHINE, *_OF_ALL], "type": "string"})
]
"""An address that is the same on every machine."""
ProxyAddress = Annotated[str, PlainValidator(_proxy), WithJsonSchema({"type": "string"})]
"""An address, or a network, of a site's proxy."""
MachineFile = Annotated[
    str,
    matching(
        _FILE_PATTERN, "a path from / on, of ASCII without spaces", "one, such as /etc/gridwright/node.pem"
    ),
]
"""The absolute path of a file on each machine."""


class ExporterCertificate(SpecModel):
    """Files on each machine by which it speaks TLS."""

    certificate: Annotated[MachineFile, _RESTARTED] = Field(
        description="The certificate of the machine with its chain, as PEM: a file on each machine."
    )
    key: Annotated[MachineFile, _RESTARTED] = Field(
        description="Its key, as PEM without a password: a file on each machine that not everybody may read."
    )


class ExporterProxy(SpecModel):
    """Proxies of the site, which do TLS."""

    addresses: Annotated[list[ProxyAddress], _RESTARTED] = Field(
        min_length=1,
        max_length=50,
        description="Who alone may connect: addresses or networks, such as [10.0.0.5].",
    )
    header: Annotated[
        str,
        matching(
            _HEADER_PATTERN, "the name of a header", "letters, digits and -, such as X-Gridwright-Token"
        ),
        _RESTARTED,
    ] = Field(description="The header in which they have the token, such as X-Gridwright-Token.")


class ExporterSection(SpecModel):
    """What each machine tells Prometheus of itself: where, and to whom."""

    port: Annotated[int, _RESTARTED] = Field(
        default=29118, ge=1, le=65535, description="The port of each machine: 29118 by default."
    )
    listen: Annotated[Listened, _RESTARTED] = Field(
        default="127.0.0.1",
        description="Where each machine listens: 127.0.0.1 (only to itself, by default) or ::1; 0.0.0.0, or "
        ":: with IPv6, for others, which needs token_file, and tls or proxy.",
    )
    tls: Annotated[ExporterCertificate | None, _RESTARTED] = Field(
        default=None,
        description="Files of TLS on each machine, such as {certificate: /etc/gridwright/node.pem, "
        "key: /etc/gridwright/node.key}.",
    )
    token_file: Annotated[MachineFile | None, _RESTARTED] = Field(
        default=None,
        description="The file on each machine with the line that every request must have, such as "
        "/etc/gridwright/exporter-token.",
    )
    proxy: Annotated[ExporterProxy | None, _RESTARTED] = Field(
        default=None,
        description="The site's proxies, such as {addresses: [10.0.0.5], header: X-Gridwright-Token}.",
    )


def exporter_problems(data: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], FieldError]]:
    """What an exporter that others reach lacks, in a spec as it is written."""
    path = ("monitoring", "exporter")
    found: Any = data
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping):
        return
    has_tls, has_token, has_proxy = (found.get(name) is not None for name in ("tls", "token_file", "proxy"))
    is_open = found.get("listen") in _OF_ALL
    if is_open and not has_token:
        yield (
            path,
            FieldError(
                "other machines reach it, and nothing would keep them out",
                "name a file with a token, such as token_file: /etc/gridwright/exporter-token",
            ),
        )
    elif has_proxy and not has_token:
        yield path, FieldError("a proxy is known by its token", "name a file with it: token_file")
    if is_open and not (has_tls or has_proxy):
        yield (
            path,
            FieldError(
                "other machines reach it, and the token would cross the network unencrypted",
                "name tls: {certificate: …, key: …}, or proxy: for one that does TLS",
            ),
        )
