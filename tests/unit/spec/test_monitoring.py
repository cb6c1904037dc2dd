"""The section `monitoring`: what it takes, and what it refuses in words that help."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gridwright.errors import GridwrightError
from gridwright.spec import parse_spec
from gridwright.spec.monitoring import WatchSection

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
