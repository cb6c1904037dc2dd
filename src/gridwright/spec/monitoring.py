"""What keeps an eye on a grid by itself: the section `monitoring` of the grid spec.

`monitoring.exporter` says who may ask machines what they do.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema

from gridwright.spec.fields import Change, SpecModel, Update
from gridwright.yamltext.fields import Duration, FieldError, matching
from gridwright.yamltext.source import show

_RESTARTED = Update(Change.LIVE, "the service starts anew on each machine, and jobs go on")
_OF_ONE_MACHINE = ("127.0.0.1", "::1")
_OF_ALL = ("0.0.0.0", "::")  # noqa: S104 - only with a token, and TLS or a proxy
_EXPORTER_FILE_PATTERN = r"^/[!-~]{1,1023}$"
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
        _EXPORTER_FILE_PATTERN,
        "a path from / on, of ASCII without spaces",
        "one, such as /etc/gridwright/node.pem",
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


def _exporter_problems(data: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], FieldError]]:
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


LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
SHORTEST_S, LONGEST_S = 10.0, 86_400.0
"""Of the time between two rounds."""
_SERVED = Update(Change.LIVE, "the service starts anew and goes on with what it knows")
_FILE_PATTERN = r"^/[^\x00-\x1f\x7f]{1,1023}$"
_ADDRESS_PATTERN = r"^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$"
"""As HTML has it for e-mail addresses: of RFC 5322 what people write, without quotes and comments."""
_SERVER_PATTERN = r"^(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|\[[0-9a-fA-F:]{2,39}\]):[0-9]{1,5}$"


def _web_address(value: object) -> str:
    """A URL that notices are posted to. Raises FieldError."""
    if not isinstance(value, str) or not re.fullmatch(r"https?://[!-~]{1,2000}", value, re.ASCII):
        raise FieldError(f"{show(value)} is no URL", "write one, such as https://alerts.example.org/grid")
    try:
        parts = urlsplit(value)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if not host:
        raise FieldError(
            f"{show(value)} names no host", "write a URL such as https://alerts.example.org/grid"
        )
    if parts.username is not None:
        raise FieldError(
            f"{show(value)} holds a name or a password, and those never stand in a grid spec",
            "leave them out: the receiver knows a notice by its signature (secret_file)",
        )
    if parts.scheme == "http" and host not in LOOPBACK:
        raise FieldError(
            f"{show(value)} sends notices through the network unencrypted",
            f"write https://{value.removeprefix('http://')}; http is for receivers on this machine",
        )
    return value


def _own_file(value: object) -> str:
    if isinstance(value, str) and re.fullmatch(_FILE_PATTERN, value):
        return value
    raise FieldError(f"{show(value)} is no path from / on", "write one, such as /etc/gridwright/watch-secret")


def _period(value: float) -> float:
    if SHORTEST_S <= value <= LONGEST_S:
        return value
    raise FieldError(
        f"{value:.12g} s is too short or too long between two rounds",
        f"write a time from {SHORTEST_S:.0f}s to {LONGEST_S / 3600:.0f}h",
    )


WebAddress = Annotated[
    str, PlainValidator(_web_address), WithJsonSchema({"type": "string", "pattern": "^https?://"})
]
"""A URL: https, or http on this machine."""
OwnFile = Annotated[
    str, PlainValidator(_own_file), WithJsonSchema({"type": "string", "pattern": _FILE_PATTERN})
]
"""The absolute path of a file on the machine that watches."""
Address = Annotated[str, matching(_ADDRESS_PATTERN, "an address of mail", "one, such as ops@example.org")]
MailServer = Annotated[
    str, matching(_SERVER_PATTERN, "a mail server with its port", "one, such as smtp.example.org:587")
]
Period = Annotated[Duration, AfterValidator(_period)]
"""Seconds between two rounds."""


class WebHook(SpecModel):
    """A URL that notices are posted to."""

    url: Annotated[WebAddress, _SERVED] = Field(
        description="Where notices are posted as JSON: https, or http on the machine that watches."
    )
    secret_file: Annotated[OwnFile | None, _SERVED] = Field(
        default=None,
        description="The file on the machine that watches whose first line signs notices, such as "
        "/etc/gridwright/watch-secret. By default the environment has it (GRIDWRIGHT_WATCH_SECRET).",
    )


class Mail(SpecModel):
    """People who get notices by mail."""

    to: Annotated[list[Address], _SERVED] = Field(
        min_length=1, max_length=50, description="Who gets notices, such as [ops@example.org]."
    )
    sender: Annotated[Address | None, _SERVED] = Field(
        default=None, description="Whom they come from. By default the user at the machine that watches."
    )
    server: Annotated[MailServer | None, _SERVED] = Field(
        default=None,
        description="The mail server with its port, such as smtp.example.org:587; port 465 speaks TLS from "
        "the start, others where they offer it. By default sendmail of the machine that watches.",
    )
    user: Annotated[str | None, _SERVED] = Field(
        default=None, min_length=1, max_length=255, description="Who logs in at the mail server, if anybody."
    )
    password_file: Annotated[OwnFile | None, _SERVED] = Field(
        default=None,
        description="The file on the machine that watches whose first line is the password of user. It goes "
        "over TLS only.",
    )


class WatchSection(SpecModel):
    """Findings over time: how often is looked, when a finding counts, and who learns of it."""

    every: Annotated[Period, _SERVED] = Field(
        default=60.0, description="How often the cheap checks of the doctor are done: 1 min by default."
    )
    all_every: Annotated[Period, _SERVED] = Field(
        default=3600.0, description="How often all its checks are done: 1 h by default."
    )
    open_after: Annotated[int, _SERVED] = Field(
        default=2, ge=1, le=60, description="After how many rounds in a row a cheap check's finding opens."
    )
    close_after: Annotated[int, _SERVED] = Field(
        default=3, ge=1, le=60, description="After how many rounds in a row without it it closes."
    )
    flapping_after: Annotated[int, _SERVED] = Field(
        default=6,
        ge=3,
        le=60,
        description="After how many changes within 60 rounds a finding is told once as flapping. For checks "
        "of each hour, within 24 rounds.",
    )
    level: Annotated[Literal["error", "warning"], _SERVED] = Field(
        default="warning", description="The least level of findings that are watched: warning, or error."
    )
    command: Annotated[list[str] | None, _SERVED] = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="A program and its arguments that gets each notice as JSON on its input, such as "
        "[/usr/local/bin/page, grid]. No shell reads them.",
    )
    webhook: Annotated[WebHook | None, _SERVED] = Field(
        default=None,
        description="A URL that each notice is posted to, signed, such as {url: https://alerts.example.org/g}.",
    )
    mail: Annotated[Mail | None, _SERVED] = Field(
        default=None, description="Who gets each notice by mail, such as {to: [ops@example.org]}."
    )


class Monitoring(SpecModel):
    """What keeps an eye on a grid by itself."""

    history: Annotated[bool, Update(Change.LIVE, "machines run the playbook in place, and jobs go on")] = (
        Field(
            default=False,
            description="Whether nodes and servers keep the history of what they did, each its own, for "
            "charts and reasons later: setup installs a service that samples once a second. Their image "
            "has /usr/local/bin/gridwright, or a role of setup.before installs it. By default none is kept.",
        )
    )
    watch: Annotated[
        WatchSection | None, Update(Change.LIVE, "setup starts or removes the service; jobs go on")
    ] = Field(
        default=None,
        description="The service on the head node that looks at the grid each minute and tells what changed, "
        "such as {mail: {to: [ops@example.org]}}; {} keeps findings and tells nobody. By default none.",
    )
    exporter: Annotated[
        ExporterSection | None,
        Update(Change.LIVE, "setup starts or removes the service on machines; jobs go on"),
    ] = Field(
        default=None,
        description="The service on nodes and servers that tells Prometheus what each of them does, such as "
        "{listen: 0.0.0.0, tls: {certificate: /etc/gridwright/node.pem, key: /etc/gridwright/node.key}, "
        "token_file: /etc/gridwright/exporter-token}; {} tells each machine alone. By default none.",
    )


MonitoringField = Annotated[
    Monitoring,
    Update(Change.LIVE, "machines run the playbook in place"),
    Field(
        default_factory=Monitoring,
        description="Services that watch the grid, such as {history: true, watch: {}, exporter: {}}.",
    ),
]
"""The field of the grid spec."""


def monitoring_problems(data: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], FieldError]]:
    """What does not fit together, in a spec as it is written."""
    yield from _exporter_problems(data)
    yield from _login_problems(data)


def _login_problems(data: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], FieldError]]:
    """Half of a login at a mail server, or one without a server."""
    found: Any = data
    path = ("monitoring", "watch", "mail")
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping):
        return
    has_user, has_password = (found.get(name) is not None for name in ("user", "password_file"))
    if has_user is not has_password:
        lacks = "password_file" if has_user else "user"
        yield (
            path,
            FieldError(f"a login at the mail server without {lacks}", f"write {lacks}, too, or neither"),
        )
    if has_user and found.get("server") is None:
        yield (
            path,
            FieldError(
                "a login, and no mail server", "name the server, such as server: smtp.example.org:587"
            ),
        )
