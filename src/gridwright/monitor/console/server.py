"""The web server of the console: lets in who has a token, answers the page's questions. It writes nothing.

A token is given once, a cookie of this session counts from then on, and headers guard the page. Each
connection is told to wait for a request or to be answered, which uvicorn itself does not bound.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import resources
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from gridwright.errors import ExitStatus, GridwrightError
from gridwright.monitor.console.answers import Answers, series_document
from gridwright.monitor.console.queries import as_csv, range_query, series_query, snapshot_query
from gridwright.monitor.console.watching import Viewer, ViewerRule
from gridwright.services.connections import Bounds, Listener
from gridwright.services.listening import Gate, NotAdmitted
from gridwright.services.ports import CONSOLE_HEALTH

BOUNDS = Bounds(in_all=512, of_one_peer=64, request_s=20.0, answer_s=60.0)
"""A browser keeps six connections and asks again within seconds; 8 MiB go within a minute."""


class _BoundedProtocol(H11Protocol):
    """HTTP/1.1 of uvicorn, whose connections are those of a listener with bounds."""

    def __init__(self, *arguments: Any, listener: Listener, **named: Any) -> None:  # noqa: ANN401 - as uvicorn has it
        super().__init__(*arguments, **named)
        self._listener = listener
        self._descriptor = -1

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - as uvicorn has it
        """Wait for a first request, also while TLS begins: the listener does so from its start on."""
        super().connection_made(transport)
        self._descriptor = transport.get_extra_info("socket").fileno()

    def data_received(self, data: bytes) -> None:
        """Wait on while a request is not whole."""
        super().data_received(data)
        self._mark()

    def on_response_complete(self) -> None:
        """What had come of a next request waits anew."""
        self._listener.waits(self._descriptor)
        super().on_response_complete()
        self._mark()

    def connection_lost(self, exc: Exception | None) -> None:
        """Its descriptor may soon be another connection's."""
        self._descriptor = -1
        super().connection_lost(exc)

    def _mark(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._listener.answers(self._descriptor)


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


_LOG = logging.getLogger("gridwright.monitor")
MOST_BYTES = 8 << 20
"""Of an answer."""
_LONGEST_QUERY = 8192
_SMALL = 2000
TYPES: Mapping[str, str] = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_PAGE = "index.html"
_SERVES = PlainTextResponse("serves\n")
"""The answer to who looks whether the console serves; it tells nothing of the grid."""


def page_files() -> Mapping[str, bytes]:
    """The files of the page by their paths below it."""
    found: dict[str, bytes] = {}

    def collect(directory: Any, above: str) -> None:  # noqa: ANN401 - Traversable
        for entry in directory.iterdir():
            if entry.is_dir():
                collect(entry, f"{above}{entry.name}/")
            elif entry.name.rpartition(".")[2] in TYPES:
                found[f"{above}{entry.name}"] = entry.read_bytes()

    collect(resources.files(__package__).joinpath("page"), "")
    return found


class ConsoleRoutes:
    """What each address answers."""

    def __init__(self, answers: Answers, viewers: ViewerRule) -> None:
        self._answers = answers
        self._viewers = viewers
        self._files = page_files()

    def routes(self) -> list[Route]:
        """All of them, for GET alone."""
        found = [
            Route("/", self.page, methods=["GET"]),
            Route("/page/{path:path}", self.file, methods=["GET"]),
            Route("/api/series", self.series, methods=["GET"]),
        ]
        answers: Mapping[str, Callable[[Request, Viewer], Any]] = {
            "about": lambda _request, viewer: self._answers.about(viewer),
            "picture": lambda request, viewer: self._answers.picture(snapshot_query(_query(request)), viewer),
            "libraries": lambda request, _: self._answers.libraries(range_query(_query(request))),
            "space": lambda request, _: self._answers.space(range_query(_query(request))),
            "why": lambda request, viewer: self._answers.why(snapshot_query(_query(request)), viewer),
            "marks": lambda request, _: self._answers.marks(range_query(_query(request))),
            "repositories": lambda _request, _: self._answers.repositories(),
        }
        found += [
            Route(f"/api/{name}", self._answering(answer), methods=["GET"])
            for name, answer in answers.items()
        ]
        return found

    async def page(self, _request: Request) -> Response:
        """The page itself."""
        return Response(self._files[_PAGE], media_type=TYPES["html"])

    async def file(self, request: Request) -> Response:
        """One of its files."""
        path = request.path_params["path"]
        if path not in self._files:
            return PlainTextResponse("there is no such file", 404)
        return Response(self._files[path], media_type=TYPES[path.rpartition(".")[2]])

    async def series(self, request: Request) -> Response:
        """Courses of metrics, as JSON or CSV."""
        viewer = self._viewer(request)

        def answer() -> Response:
            query = series_query(_query(request), names=viewer.is_administrator)
            found = self._answers.series(query)
            if not query.as_table:
                return _json(series_document(found, query))
            name = f"{query.metrics[0]}.csv"
            return Response(
                as_csv(found),
                media_type="text/csv; charset=utf-8",
                headers={"Content-Disposition": f'attachment; filename="{name}"'},
            )

        return await _bounded(answer)

    def _viewer(self, request: Request) -> Viewer:
        return self._viewers.viewer({name.lower(): value for name, value in request.headers.items()})

    def _answering(self, ask: Callable[[Request, Viewer], Any]) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            viewer = self._viewer(request)
            return await _bounded(lambda: _json(ask(request, viewer)))

        return endpoint


def _query(request: Request) -> list[tuple[str, str]]:
    return list(request.query_params.multi_items())


async def _bounded(answer: Callable[[], Response]) -> Response:
    """What a thread answers; what the asker or the environment did wrong is told as such."""
    try:
        return await run_in_threadpool(answer)
    except GridwrightError as error:
        status = 400 if error.status is ExitStatus.INPUT else 503
        problems = [
            {"what": problem.what, "where": problem.where, "remedy": problem.remedy}
            for problem in error.problems
        ]
        return _json({"problems": problems}, status)
    except Exception as error:
        _LOG.error("an answer failed: %s: %s", type(error).__name__, error)
        words = "the console failed at this; what it prints says where"
        return _json({"problems": [{"what": words, "where": None, "remedy": None}]}, 500)


def _json(value: Any, status: int = 200) -> Response:  # noqa: ANN401 - any plain value
    body = json.dumps(_finite(value), allow_nan=False, separators=(",", ":")).encode()
    if len(body) > MOST_BYTES:
        words = f"the answer has {len(body) >> 20} MiB; ask for a shorter range or one node"
        return _json({"problems": [{"what": words, "where": None, "remedy": None}]}, 413)
    return Response(body, status, media_type="application/json")


def _finite(value: Any) -> Any:  # noqa: ANN401 - any plain value
    """The same, with None for numbers that JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(each) for each in value]
    return value


class Guarded:
    """Lets in who may come in, and gives each answer the headers that keep the page its own."""

    def __init__(self, application: ASGIApp, access: ConsoleAccess) -> None:
        self._application = application
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        response = self._refused(scope)
        if response is None:
            await self._application(scope, receive, _with_headers(send))
        else:
            await response(scope, receive, _with_headers(send))

    def _refused(self, scope: Scope) -> Response | None:
        """The answer to who is not let in, came with the token, or looks after health; None for others."""
        if len(scope.get("query_string", b"")) > _LONGEST_QUERY:
            return PlainTextResponse("the query is too long", 414)
        request = Request(scope)
        client = scope.get("client") or ("127.0.0.1", 0)
        headers = {name.lower(): value for name, value in Headers(scope=scope).items()}
        if scope["path"] == CONSOLE_HEALTH:
            refusal = self._access.gate.without_token(client[0])
            return _SERVES if refusal is None else _refused(refusal)
        at_door = scope["path"] == "/"
        token = request.query_params.get("token") if at_door else None
        refusal = self._access.refusal(client[0], headers, request.cookies, token)
        if refusal is not None:
            return _refused(refusal)
        if token is None:
            return None
        # The token leaves the address bar, and with it the browser's memory.
        found = RedirectResponse("./", 303)
        found.set_cookie(
            self._access.cookie_name,
            self._access.cookie,
            httponly=True,
            samesite="lax",
            secure=scope.get("scheme") == "https" or bool(self._access.gate.listening.proxies),
        )
        return found


def _refused(why: NotAdmitted) -> Response:
    """The connection ends with it: who is not let in holds none."""
    headers = {"WWW-Authenticate": "Bearer", "Connection": "close"}
    return PlainTextResponse(f"{why.words}\n", why.status, headers=headers)


def _with_headers(send: Send) -> Send:
    async def send_all(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [
                *message["headers"],
                *((name.lower().encode(), value.encode()) for name, value in HEADERS.items()),
            ]
        await send(message)

    return send_all


def console_application(answers: Answers, viewers: ViewerRule, access: ConsoleAccess) -> ASGIApp:
    """The whole of it."""
    # A picture of a thousand nodes is 1.4 MB, and a tenth of that as gzip; no secret is in an answer.
    packed = [Middleware(GZipMiddleware, minimum_size=_SMALL, compresslevel=4)]
    return Guarded(Starlette(routes=ConsoleRoutes(answers, viewers).routes(), middleware=packed), access)


def _is_no_broken_request(record: logging.LogRecord) -> bool:
    return record.msg != "Invalid HTTP request received."


class ConsoleServer:
    """Serves in a thread of its own until it is closed; open connections are not waited for."""

    def __init__(self, application: ASGIApp, access: ConsoleAccess, listener: Listener) -> None:
        """Raises GridwrightError (status ENVIRONMENT) where the certificate cannot be used."""
        config = uvicorn.Config(
            application,
            http=partial(_BoundedProtocol, listener=listener),  # type: ignore[arg-type]
            loop="asyncio",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            ws="none",
            timeout_keep_alive=20,
            h11_max_incomplete_event_size=16_384,
        )
        config.load()
        # Anybody can have it said as often as they like.
        logging.getLogger("uvicorn.error").addFilter(_is_no_broken_request)
        config.ssl = access.gate.listening.tls()
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [listener]}, name="console", daemon=True
        )

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether it still serves."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Stop at once."""
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(0.8)
