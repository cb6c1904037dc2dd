"""A service that other machines reach is encrypted and has a token, or a proxy that has both."""

from __future__ import annotations

import secrets
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.services.connections import Bounds
from gridwright.services.listening import ListeningChoice, listening_of
from tests.support.certificates import make_certificate

TOKEN = 2 * "0123456789abcdef"


def told(choice: ListeningChoice) -> str:
    with pytest.raises(GridwrightError) as caught:
        listening_of(choice)
    assert caught.value.status is ExitStatus.INPUT
    return str(caught.value)


def token_file(directory: Path, text: str = TOKEN + "\n", mode: int = 0o600) -> Path:
    path = directory / "token"
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost"])
def test_loopback_needs_nothing(address: str) -> None:
    found = listening_of(ListeningChoice(address=address, port=9000))
    assert found.is_loopback
    assert found.token is None
    assert found.url().startswith("http://")


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "10.1.2.3", "::ffff:127.0.0.1"])  # noqa: S104 - it is refused
def test_another_address_needs_tls_and_a_token_and_both_are_told(address: str) -> None:
    text = told(ListeningChoice(address=address, port=9000))
    assert "--token-file" in text
    assert "--certificate" in text


def test_a_token_alone_is_not_enough_nor_is_tls(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    assert "unencrypted" in told(ListeningChoice(address="10.0.0.7", port=9000, token=TOKEN))
    assert "keep them out" in told(
        ListeningChoice(address="10.0.0.7", port=9000, certificate=certificate, key=key)
    )


def test_tls_and_a_token_do(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    found = listening_of(
        ListeningChoice(
            address="10.0.0.7", port=9000, certificate=certificate, key=key, token_file=token_file(tmp_path)
        )
    )
    assert found.token == TOKEN
    assert found.scheme == "https"
    assert found.tls() is not None
    assert TOKEN not in repr(found)


def test_a_proxy_needs_its_address_its_header_and_the_token() -> None:
    assert "--proxy-header" in told(ListeningChoice(port=9000, token=TOKEN, proxies=["10.0.0.5"]))
    assert "--proxy " in told(ListeningChoice(port=9000, token=TOKEN, proxy_header="X-Token"))
    assert "token" in told(
        ListeningChoice(address="10.0.0.7", port=9000, proxies=["10.0.0.5"], proxy_header="X-Token")
    )
    found = listening_of(
        ListeningChoice(
            address="10.0.0.7", port=9000, token=TOKEN, proxies=["10.0.0.0/28"], proxy_header="X-Token"
        )
    )
    assert [str(each) for each in found.proxies] == ["10.0.0.0/28"]


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        ("short\n", 0o600, "5 characters"),
        ("", 0o600, "0 characters"),
        ("two words of many characters\n", 0o600, "others than a header takes"),
        ("caf\xe9" * 8, 0o600, "others than a header takes"),
        (TOKEN, 0o644, "chmod 600"),
    ],
)
def test_bad_token_files_are_told_without_the_token(tmp_path: Path, text: str, mode: int, words: str) -> None:
    found = told(ListeningChoice(port=9000, token_file=token_file(tmp_path, text, mode)))
    assert words in found
    assert not text.strip() or text.strip() not in found


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    text = told(
        ListeningChoice(
            address="head.example",
            port=70000,
            certificate=tmp_path / "absent.pem",
            key=tmp_path / "absent.key",
            token_file=tmp_path / "absent",
            proxies=["somewhere"],
            proxy_header="X Token",
        )
    )
    for word in ("head.example", "70000", "absent.key", "somewhere", "'X Token'", str(tmp_path / "absent")):
        assert word in text


def test_a_certificate_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    certificate, key = make_certificate(tmp_path / "a")
    _, other = make_certificate(tmp_path / "b")
    assert "do not work together" in told(ListeningChoice(port=1, certificate=certificate, key=other))
    assert "add --key" in told(ListeningChoice(port=1, certificate=certificate))
    past = datetime.now(UTC) - timedelta(days=1)
    certificate, key = make_certificate(tmp_path / "a", until=past)
    assert f"ended on {past:%Y-%m-%d}" in told(ListeningChoice(port=1, certificate=certificate, key=key))
    key.chmod(0o644)
    assert "may read this key" in told(ListeningChoice(port=1, certificate=certificate, key=key))
    certificate.write_text("-----BEGIN")
    assert "no certificate" in told(ListeningChoice(port=1, certificate=certificate, key=key))


def test_a_port_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        choice = listening_of(ListeningChoice(port=taken.getsockname()[1]))
        with pytest.raises(GridwrightError, match="in use") as caught:
            choice.bind(Bounds(1, 1, 1.0, 1.0))
    assert caught.value.status is ExitStatus.ENVIRONMENT


def test_a_token_of_few_characters_is_refused() -> None:
    with pytest.raises(GridwrightError, match="could be guessed: it is made of 3 different characters"):
        listening_of(ListeningChoice(port=0, token="abc" * 8))
    assert listening_of(ListeningChoice(port=0, token=secrets.token_hex(16))).token is not None
