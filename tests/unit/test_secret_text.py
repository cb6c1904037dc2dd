"""Secrets that stand in a wrong place are refused without being shown."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gridwright.errors import GridwrightError
from gridwright.repository.s3.connection import BucketLocation
from gridwright.secret_text import masked
from gridwright.spec import parse_spec
from gridwright.yamltext.source import SourceText, show

SHOWN = {
    "password: hunter2": "password: *******",
    "{password: hunter2, size: 1}": "{password: *******, size: 1}",
    '{"api_key":"hunter2", "size": 1}': '{"api_key":*********, "size": 1}',
    "password: 'it''s\n  hunter2'\nb: 1": "password: ******\n  ********\nb: 1",
    "db-token: |\n  hunter2\n\n  hunter2\nb: 1": "db-token: *\n  *******\n\n  *******\nb: 1",
    "- secret:\n    hunter2\n- b: 1": "- secret:\n    *******\n- b: 1",
    "? password\n: hunter2": "? password\n: *******",
    "e: http://ann:hunter2@host:9000/x": "e: http://***********@host:9000/x",
    "e: http://ann:hun/t@r2@host": "e: http://************@host",
    "e: https://hunter2@host": "e: https://*******@host",
    "e: postgres://ann:hunter2@host": "e: postgres://***********@host",
    "u: https://h/x?X-Amz-Signature=hunter2&b=1": "u: https://h/x?X-Amz-Signature=*******&b=1",
    "k: AKIAABCDEFGHIJKLMNOP": "k: ********************",
    "k: '-----BEGIN RSA PRIVATE KEY-----\n  hunter2\n  -----END RSA PRIVATE KEY-----'": (
        "k: '-----BEGIN RSA PRIVATE KEY-----\n  *******\n  -----END RSA PRIVATE KEY-----'"
    ),
}
PLAIN = (
    "password_file: /etc/watch",
    "bind: {secret: /etc/ldap.secret}",
    "secret: arn:aws:secretsmanager:eu-central-1:111122223333:secret:x",
    'db_password: \'{{ lookup("file", "x") }}\'',
    "login: [keys, password]",
    "bucket: oci://bucket@namespace/prefix",
    "to: [ann@example.org]",
)
SPEC = (
    "name: g\nprovider: local\nfilesystems: {disk: {type: local, path: /data}}\n"
    "libraries: {work: {filesystem: disk}}\n"
)
WRONG = (
    "repositories: {r: {library: work, bucket: s3://site, endpoint: 'http://ann:hunter2@127.0.0.1:9000'}}",
    "repositories: {r: {library: work, bucket: 's3://ann:hunter2@site'}}",
    "monitoring: {watch: {webhook: {url: 'https://ann:hunter2@alerts.example.org'}}}",
    "users: {ldap: {servers: ['ldaps://h'], base: 'dc=x', bind: {dn: 'cn=a', secret: hunter2}}}",
    "setup: {variables: {db_password: hunter2}}",
    "setup: {variables: {db_password: 'hunter2}}",
    "password: hunter2",
    "scheduler: {type: slurm, password: hunter2, typ: x}",
)


@pytest.mark.parametrize("text", SHOWN)
def test_a_secret_is_covered_and_positions_stay(text: str) -> None:
    assert masked(text) == SHOWN[text]
    assert len(masked(text)) == len(text)


@pytest.mark.parametrize("text", PLAIN)
def test_what_says_where_a_secret_is_stays(text: str) -> None:
    assert masked(text) == text


@pytest.mark.parametrize("section", WRONG)
def test_a_spec_is_refused_without_its_secret(section: str) -> None:
    with pytest.raises(GridwrightError) as caught:
        parse_spec(SPEC + section, base=Path("/base"))
    assert "hunter2" not in str(caught.value)
    assert "^" in str(caught.value)


def test_the_line_is_cut_after_it_was_covered() -> None:
    """Cut first, the user of a URL would be gone, and its password would look like any word."""
    text = f"endpoint: http://{'u' * 80}:hunter2@host"
    assert "hunter2" not in SourceText("s", text).excerpt(len(text) - 1)
    assert "hunter2" not in show(f"http://ann:hunter2@{'h' * 80}")


def test_a_bucket_that_is_none_is_told_without_its_password() -> None:
    with pytest.raises(GridwrightError) as caught:
        BucketLocation.parse("https://ann:hunter2@store/bucket")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "piece", ['a: "', "a:\t", "token", "http://", "?a=", 'password: "', "{token:x,", "a.:@"]
)
def test_a_long_line_takes_time_in_proportion(piece: str) -> None:
    def took(times: int) -> float:
        started = time.process_time()
        masked(piece * times)
        return time.process_time() - started

    short = min(took(4_000) for _ in range(3))
    assert took(64_000) < max(short, 0.002) * 16 * 6
