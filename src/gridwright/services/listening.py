"""Where a web service listens, what it needs to be reached from other machines, and who may ask it how often.

The rules, for every service of Gridwright that listens: an address of this machine alone (loopback) needs
nothing. Any other one needs a certificate with its key and a token, or a proxy of the site: then the service
speaks plain HTTP with that proxy alone, which has the token in a header of its own, and does TLS itself.
Secrets are read from a file or from the environment, never from the command line, which `ps` shows.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import re
import ssl
import stat
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from gridwright.errors import ExitStatus, GridwrightError, Problem, environment_error
from gridwright.handed_files import open_file
from gridwright.services.connections import (
    Bounds,
    Listener,
    Network,
    is_among,
    listen_on,
    peer_of,
    within_descriptors,
)

SHORTEST_TOKEN = 16
"""Characters. Who has the token is let in whatever others send, so a service compares every guess that it is
sent: at 10,000 a second, 64 random bits (16 characters of `openssl rand -hex`) last for millions of years."""
_FEWEST_DISTINCT = 6
"""Characters that differ: of 16 random hexadecimal digits, fewer do in one of 50,000 tokens."""
_MOST_PEM_BYTES = 1 << 20
_LONGEST_TOKEN = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ListeningChoice:
    """What flags, files and the environment say of it."""

    address: str = "127.0.0.1"
    port: int
    certificate: Path | None = None
    key: Path | None = None
    token_file: Path | None = None
    token: str | None = field(default=None, repr=False)
    """From the environment; the file counts where both are."""
    proxies: Sequence[str] = ()
    """Addresses or networks of the site's proxies."""
    proxy_header: str | None = None
    """The header in which a proxy has the token."""
    has_sessions: bool = False
    """Whether it takes the token of browsers itself: then a proxy may do TLS alone, and add nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """Where a service listens, checked."""

    address: str
    port: int
    certificate: Path | None = None
    key: Path | None = None
    token: str | None = field(default=None, repr=False)
    """What every request has to have; None where nothing is asked for."""
    proxies: tuple[Network, ...] = ()
    """Who alone may connect; empty for everybody."""
    proxy_header: str | None = None
    """Where requests have the token; None for `Authorization: Bearer TOKEN`."""

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return ipaddress.ip_address(self.address).is_loopback

    @property
    def scheme(self) -> str:
        """Of its URL: https or http."""
        return "http" if self.certificate is None else "https"

    def url(self, port: int | None = None) -> str:
        """Its URL without a path; `port` where the kernel has chosen one."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.scheme}://{host}:{port or self.port}"

    def tls(self) -> ssl.SSLContext | None:
        """What TLS needs, read anew: certificates are renewed. None for plain HTTP.

        Raises GridwrightError (status ENVIRONMENT) where the files have gone bad.
        """
        if self.certificate is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.certificate, self.key, password=lambda: b"")
        except (OSError, ValueError) as error:
            raise environment_error(
                f"cannot be used for TLS: {getattr(error, 'strerror', None) or error}",
                where=str(self.certificate),
                remedy="write the certificate and its key again",
            ) from None
        return context

    def bind(self, bounds: Bounds) -> Listener:
        """A socket that listens there. Raises GridwrightError (status ENVIRONMENT) where it cannot."""
        try:
            made = listen_on(self.address, self.port)
        except OSError as error:
            raise environment_error(
                f"cannot be listened on: {error.strerror or error}",
                where=f"{self.address}:{self.port}",
                remedy="name another port, or end what has this one (`ss -ltnp`)",
            ) from None
        made.bounds, made.proxies = within_descriptors(bounds), self.proxies
        return made


def listening_of(choice: ListeningChoice) -> Listening:
    """What was chosen, checked. Raises GridwrightError (status INPUT) with all that is wrong with it."""
    problems: list[Problem] = []
    address = _address(choice.address, problems)
    if not 0 <= choice.port <= 65535:
        _add(
            problems,
            f"{choice.port} is no port",
            "--port",
            "write one from 1 to 65535; 0 for any that is free",
        )
    token = _token(choice, problems)
    proxies = tuple(_proxies(choice, problems))
    if choice.certificate is not None and choice.key is not None:
        problems += _certificate_problems(choice.certificate, choice.key)
    elif choice.certificate is not None or choice.key is not None:
        _add(
            problems,
            "TLS needs both the certificate and its key",
            "--certificate",
            "add --key and --certificate",
        )
    if address is not None and not ipaddress.ip_address(address).is_loopback:
        problems += _open_problems(choice, token is not None or choice.token_file is not None)
    if choice.proxies and choice.token is None and choice.token_file is None:
        _add(problems, "a proxy is known by its token", "--proxy", "add --token-file")
    if problems or address is None:
        raise GridwrightError(*problems, status=ExitStatus.INPUT)
    return Listening(
        address=address,
        port=choice.port,
        certificate=choice.certificate,
        key=choice.key,
        token=token,
        proxies=proxies,
        proxy_header=choice.proxy_header,
    )


def _address(text: str, problems: list[Problem]) -> str | None:
    """The address, so that no name service decides who reaches a service."""
    try:
        return str(ipaddress.ip_address("127.0.0.1" if text == "localhost" else text.strip("[]")))
    except ValueError:
        _add(
            problems,
            f"{text!r} is no address",
            "--listen",
            "write an IP address of this machine, such as 10.0.0.7, or 0.0.0.0 for all of them",
        )
        return None


def _open_problems(choice: ListeningChoice, has_token: bool) -> Iterator[Problem]:
    """What an address that other machines reach lacks."""
    if not has_token:
        yield Problem(
            what=f"other machines reach {choice.address}, and nothing would keep them out",
            where="--listen",
            remedy=f"add --token-file: a file of root's with a line of {SHORTEST_TOKEN} characters or more",
        )
    if choice.certificate is None and choice.key is None and not choice.proxies:
        yield Problem(
            what=f"other machines reach {choice.address}, and the token would cross the network unencrypted",
            where="--listen",
            remedy="add --certificate and --key; or --proxy and --proxy-header for a proxy that does TLS",
        )


def _token(choice: ListeningChoice, problems: list[Problem]) -> str | None:
    if choice.token_file is None:
        where, text = "the environment", choice.token
    else:
        where, text = str(choice.token_file), _secret(choice.token_file, problems)
    if text is None:
        return None
    token = text.strip()
    if not SHORTEST_TOKEN <= len(token) <= _LONGEST_TOKEN or not _is_word(token):
        # What it is stays unsaid: messages end up in logs.
        _add(
            problems,
            f"no token: it has {len(token)} characters, or others than a header takes",
            where,
            f"write one line of {SHORTEST_TOKEN} letters and digits or more, as `openssl rand -hex 32` does",
        )
        return None
    if len(set(token)) < _FEWEST_DISTINCT:
        few = f"this token could be guessed: it is made of {len(set(token))} different characters"
        _add(problems, few, where, "write a random one, as `openssl rand -hex 32` does")
        return None
    return token


def _is_word(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text


def _secret(path: Path, problems: list[Problem]) -> str | None:
    """The text of a file that only its owner, or its group, may read."""
    try:
        with open_file(path) as file:
            if os.fstat(file.fileno()).st_mode & stat.S_IROTH:
                _add(problems, "everybody on this machine may read it", str(path), f"chmod 600 {path}")
                return None
            return file.read(_LONGEST_TOKEN + 2).decode("ascii", errors="replace")
    except OSError as error:
        _add(problems, f"cannot be read: {error.strerror}", str(path), "name a file with the token")
        return None


def _proxies(choice: ListeningChoice, problems: list[Problem]) -> Iterator[Network]:
    lacks_header = bool(choice.proxies) and not choice.proxy_header and not choice.has_sessions
    if lacks_header or (choice.proxy_header and not choice.proxies):
        _add(
            problems,
            "a proxy is known by its address and by the header in which it has the token",
            "--proxy" if choice.proxies else "--proxy-header",
            "name both: --proxy 10.0.0.5 --proxy-header X-Gridwright-Token",
        )
    name = choice.proxy_header
    if name is not None and not (name.isascii() and name.replace("-", "").isalnum()):
        _add(problems, f"{name!r} is no name of a header", "--proxy-header", "use letters, digits and -")
    for text in choice.proxies:
        try:
            yield ipaddress.ip_network(text)
        except ValueError:
            _add(problems, f"{text!r} is no address", "--proxy", "write 10.0.0.5, or a network: 10.0.0.0/28")


def _certificate_problems(certificate: Path, key: Path) -> Iterator[Problem]:
    """What is wrong with a certificate and its key, as far as can be told without a client."""
    from cryptography.x509 import load_pem_x509_certificate

    try:
        if key.stat().st_mode & stat.S_IROTH:
            yield Problem("everybody on this machine may read this key", str(key), remedy=f"chmod 600 {key}")
        with open_file(key), open_file(certificate) as file:  # OpenSSL would wait for a pipe.
            first = load_pem_x509_certificate(file.read(_MOST_PEM_BYTES))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key, password=lambda: b"")
    except ssl.SSLError as error:
        yield Problem(
            f"this certificate and the key {key} do not work together: {error.reason or error}",
            str(certificate),
            remedy="name the certificate, with its chain after it, and its key: both as PEM, no password",
        )
    except OSError as error:
        yield Problem(
            f"cannot be read: {error.strerror}", error.filename or str(certificate), remedy="name the file"
        )
    except ValueError:
        yield Problem("is no certificate in PEM", str(certificate), remedy="name a file of BEGIN CERTIFICATE")
    else:
        if datetime.now(UTC) > first.not_valid_after_utc:
            ended = f"{first.not_valid_after_utc:%Y-%m-%d}"
            yield Problem(f"this certificate ended on {ended}", str(certificate), remedy="renew it")


def _add(problems: list[Problem], what: str, where: str, remedy: str) -> None:
    problems.append(Problem(what=what, where=where, remedy=remedy))


_MOST_PEERS = 4096
"""Users of this machine and addresses that are remembered: with more, the longest silent are forgotten."""
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]*))(?::[0-9]{0,5})?", re.ASCII)
_LOCAL_NAMES = frozenset({"localhost", "localhost.localdomain", "ip6-localhost"})


@dataclass(frozen=True, slots=True)
class NotAdmitted:
    """Why a request is not answered: a status of HTTP (RFC 9110) and words for a person."""

    status: int
    words: str


class PeerRate:
    """A bucket of tokens for each peer: so many at once, and so many more per second."""

    def __init__(self, at_once: float, per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._at_once = at_once
        self._per_s = per_s
        self._clock = clock
        self._peers: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, peer: str) -> bool:
        """Whether a peer (see `services.connections`) may do it once more, now; if so, it has."""
        peer = peer_of(peer)
        with self._lock:
            left = self._left(peer)
            self._peers[peer] = max(0.0, left - 1) if left >= 1 else left, self._clock()
            self._peers.move_to_end(peer)
            while len(self._peers) > _MOST_PEERS:
                self._peers.popitem(last=False)
            return left >= 1

    def _left(self, peer: str) -> float:
        left, at = self._peers.get(peer, (self._at_once, self._clock()))
        return min(self._at_once, left + (self._clock() - at) * self._per_s)


@dataclass(slots=True)
class Gate:
    """Lets requests in that have the token, of addresses that may connect, however often they come.

    Failures alone have a rate: behind a load balancer many people are one address, and who fails must not
    lock the others out. That rate keeps logs and answers small; against guessing there is the length of the
    token, see `listening.SHORTEST_TOKEN`.

    Where no token is asked for, only requests that were meant for this machine are let in: a page of the web
    whose name was made to point to 127.0.0.1 has another name in its `Host` (DNS rebinding).
    """

    listening: Listening
    requests: PeerRate = field(default_factory=lambda: PeerRate(at_once=60, per_s=20))
    """Where no token is asked for."""
    wrong_tokens: PeerRate = field(default_factory=lambda: PeerRate(at_once=10, per_s=0.1))
    """Guesses that are told that they are wrong: after ten, six a minute."""

    def connects(self, peer: str) -> bool:
        """Whether an address may connect at all."""
        return not self.listening.proxies or is_among(peer, self.listening.proxies)

    def without_token(self, peer: str) -> NotAdmitted | None:
        """Why a request that needs no token is refused, or None: its address."""
        return None if self.connects(peer) else NotAdmitted(403, "only the site's proxy may connect")

    def refusal(
        self, address: str, headers: Mapping[str, str], *, peer: str | None = None
    ) -> NotAdmitted | None:
        """Why a request is refused, or None. `headers` has the names in lower case.

        `peer` is who it is counted as, see `services.connections`; None for its address.
        A token that comes otherwise, such as in a cookie, is compared by `is_token`.
        """
        if (found := self.without_token(address)) is not None:
            return found
        peer = peer or address
        if self.listening.token is not None:
            return self._stranger(peer, headers)
        if not self.requests.take(peer):
            return NotAdmitted(429, "too many requests; ask again in a second")
        return self._misdirected(headers)

    def _misdirected(self, headers: Mapping[str, str]) -> NotAdmitted | None:
        if _host(headers.get("host", "")) in {*_LOCAL_NAMES, self.listening.address, ""}:
            return None
        return NotAdmitted(421, "this service is asked as localhost or by its address")

    def _stranger(self, peer: str, headers: Mapping[str, str]) -> NotAdmitted | None:
        if self.is_token(self._offered(headers)):
            return None
        if not self.wrong_tokens.take(peer):
            return NotAdmitted(429, "too many wrong tokens; wait ten seconds, or bring the right one")
        return NotAdmitted(401, "the token is missing or wrong")

    def is_token(self, offered: str) -> bool:
        """Whether it is the token, in a time that tells nothing of how much of it was right."""
        expected = (self.listening.token or "").encode()
        return bool(expected) and hmac.compare_digest(offered.encode("utf-8", "replace"), expected)

    def _offered(self, headers: Mapping[str, str]) -> str:
        if self.listening.proxy_header is not None:
            return headers.get(self.listening.proxy_header.lower(), "")
        scheme, _, token = headers.get("authorization", "").partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""


def _host(header: str) -> str | None:
    """The name or address that a `Host` has, without its port (RFC 9110, 7.2); None where it is no such text.

    Several that came as one, with a comma between them, are none either (RFC 9112, 3.2).
    """
    match = _HOST.fullmatch(header.strip())
    return match and (match[1] or match[2]).lower()
