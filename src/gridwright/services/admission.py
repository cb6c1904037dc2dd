"""Who may ask a web service, and how often (no network in here).

Used by whatever server speaks HTTP: it hands over the peer's address and the headers, and answers with the
`NotAdmitted` where there is one.
"""

from __future__ import annotations

import hmac
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gridwright.services.listening import Listening
from gridwright.services.peers import is_among, peer_of

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
        """Whether a peer (see `services.peers`) may do it once more, now; if so, it has."""
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

        `peer` is who it is counted as, see `services.peers`; None for its address.
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
