"""The section `monitoring`: what it takes, and what it refuses in words that help."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gridwright.errors import GridwrightError
from gridwright.spec import parse_spec
from gridwright.spec.monitoring import ExporterSection, WatchSection

DISK = {"filesystems": {"disk": {"type": "local", "path": "/data"}}}


def watch_of(**fields: Any) -> WatchSection:
    spec = parse_spec(json.dumps({**DISK, "monitoring": {"watch": fields}}))
    assert spec.monitoring.watch is not None
    return spec.monitoring.watch


def test_a_watch_needs_no_field_and_a_grid_needs_no_watch() -> None:
    assert parse_spec(json.dumps(DISK)).monitoring.watch is None
    watch = watch_of()
    assert (watch.every, watch.all_every, watch.level) == (60.0, 3600.0, "warning")
    assert watch_of(every="30s").every == 30.0


@pytest.mark.parametrize("url", ["https://a.example.org/x?y=z", "http://localhost:9000/", "http://[::1]/"])
def test_a_webhook_is_encrypted_or_on_this_machine(url: str) -> None:
    webhook = watch_of(webhook={"url": url}).webhook
    assert webhook is not None and webhook.url == url


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"webhook": {"url": "http://example.org/"}}, "https://example.org/"),
        ({"webhook": {"url": "http://localhost.example.org/"}}, "unencrypted"),
        ({"webhook": {"url": "https://ann:secret@example.org/"}}, "never stand in a grid spec"),
        ({"webhook": {"url": "https:///x"}}, "names no host"),
        ({"webhook": {"url": "ftp://example.org/"}}, "is no URL"),
        ({"webhook": {"url": "https://[::1/"}}, "names no host"),
        ({"webhook": {"url": "https://example.org/", "secret_file": "secret"}}, "no path from / on"),
        ({"mail": {"to": ["ops"]}}, "not an address of mail"),
        ({"mail": {"to": ["ops@example.org\nBcc: x@example.org"]}}, "not an address of mail"),
        ({"mail": {"to": []}}, "monitoring.watch.mail.to"),
        ({"mail": {"to": ["a@b.org"], "server": "smtp.example.org"}}, "smtp.example.org:587"),
        ({"mail": {"to": ["a@b.org"], "server": "a.org:25", "user": "a"}}, "without password_file"),
        ({"mail": {"to": ["a@b.org"], "user": "a", "password_file": "/etc/p"}}, "no mail server"),
        ({"every": "1s"}, "from 10s to 24h"),
        ({"command": []}, "monitoring.watch.command"),
        ({"evry": "1m"}, "every"),
    ],
)
def test_what_cannot_work_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(GridwrightError) as refused:
        watch_of(**fields)
    assert words in str(refused.value), str(refused.value)


def test_all_that_is_wrong_comes_at_once() -> None:
    with pytest.raises(GridwrightError) as refused:
        watch_of(every="1s", webhook={"url": "x"}, mail={"to": ["a@b.org"], "user": "a"})
    assert len(refused.value.problems) == 4


def exporter_of(**fields: Any) -> ExporterSection:
    spec = parse_spec(json.dumps({**DISK, "monitoring": {"exporter": fields}}))
    assert spec.monitoring.exporter is not None
    return spec.monitoring.exporter


TLS = {"certificate": "/etc/a.pem", "key": "/etc/a.key"}
PROXY = {"addresses": ["10.0.0.5", "10.1.0.0/28"], "header": "X-Token"}


def test_no_machine_tells_others_unless_the_spec_says_so() -> None:
    assert parse_spec(json.dumps(DISK)).monitoring.exporter is None
    exporter = exporter_of()
    assert (exporter.listen, exporter.port) == ("127.0.0.1", 29118)
    assert exporter_of(listen="0.0.0.0", token_file="/etc/t", tls=TLS).tls is not None  # noqa: S104, S106
    assert exporter_of(listen="::", token_file="/etc/t", proxy=PROXY).proxy is not None  # noqa: S106


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"listen": "0.0.0.0", "tls": TLS}, "nothing would keep them out"),  # noqa: S104
        ({"listen": "::", "token_file": "/etc/t"}, "unencrypted"),
        ({"listen": "::", "token_file": None, "tls": None}, "unencrypted"),
        ({"listen": "10.0.0.7"}, "not an address that every machine of a grid has"),
        ({"listen": 0}, "not an address that every machine of a grid has"),
        ({"proxy": PROXY}, "a proxy is known by its token"),
        ({"token_file": "/etc/t", "proxy": {**PROXY, "addresses": ["10.0.0.5/24"]}}, "is no address"),
        ({"token_file": "/etc/t", "proxy": {**PROXY, "addresses": [7]}}, "is no address"),
        ({"token_file": "/etc/t", "proxy": {**PROXY, "header": "X-A\nB: c"}}, "not the name of a header"),
        ({"tls": {"certificate": "/etc/a.pem"}}, "key"),
        ({"tls": {**TLS, "key": "/etc/a\nUser=root"}}, "not a path from / on"),
        ({"token_file": "token"}, "not a path from / on"),
        ({"token": "0123456789abcdef0123456789abcdef"}, "token_file"),
        ({"port": 0}, "monitoring.exporter.port"),
    ],
)
def test_an_exporter_that_others_would_reach_unguarded_is_refused(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(GridwrightError) as refused:
        exporter_of(**fields)
    assert words in str(refused.value), str(refused.value)
