"""Who is let in: a token once, a cookie of this session from then on; and headers that guard the page."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from gridwright.services.listening import Gate, NotAdmitted

CONTENT_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
"""What a browser may load and do for the page: its own files alone, nothing inline."""
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_LONGEST_COOKIE = 200


def session_token() -> str:
    """A token for one console: other users of this machine reach loopback, too."""
    return secrets.token_urlsafe(24)


@dataclass(slots=True)
class ConsoleAccess:
    """Lets requests in. The cookie is made of the token and of a salt that dies with the process."""

    gate: Gate
    port: int
    _salt: bytes = field(default_factory=lambda: secrets.token_bytes(16))

    @property
    def cookie_name(self) -> str:
        """Cookies of one host are sent to all its ports."""
        return f"gridwright-console-{self.port}"

    @property
    def cookie(self) -> str:
        """What shows that a browser had the token."""
        token = (self.gate.listening.token or "").encode()
        return hashlib.blake2b(token, key=self._salt, digest_size=32).hexdigest()

    def refusal(
        self, peer: str, headers: Mapping[str, str], cookies: Mapping[str, str], in_query: str | None
    ) -> NotAdmitted | None:
        """Why a request is refused, or None. `in_query` is the token of the address, where it has one."""
        listening = self.gate.listening
        if listening.proxy_header is not None:
            return self.gate.refusal(peer, headers)
        given = dict(headers)
        offered = cookies.get(self.cookie_name, "")
        if in_query is not None:
            given["authorization"] = f"Bearer {in_query}"
        elif len(offered) < _LONGEST_COOKIE and secrets.compare_digest(
            offered.encode(), self.cookie.encode()
        ):
            given["authorization"] = f"Bearer {listening.token}"
        return self.gate.refusal(peer, given)
