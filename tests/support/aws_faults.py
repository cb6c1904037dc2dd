"""Faults at the outermost edge: a server before the cloud, which answers some calls itself."""

from __future__ import annotations

import http.client
import json
import re
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.http_service import QuietHandler, http_server, running, url_of

_KEY = re.compile(r"Credential=([^/]+)/")
_SCOPE = re.compile(r"Credential=[^/]+/[0-9]+/[^/]+/([a-z0-9-]+)/aws4_request")
_OF_CONNECTION = frozenset({"connection", "transfer-encoding", "content-length", "keep-alive"})


@dataclass
class Fault:
    """What is answered to a call."""

    code: str
    message: str
    status: int
    times: int
    """How often; then the call goes through."""


@dataclass(frozen=True)
class Call:
    """One call as it came: `service:Action`, or `s3:VERB` with a path."""

    action: str
    path: str
    parameters: Mapping[str, Any]
    key: str = ""
    """Access key that it was signed with, which tells who called."""

    @classmethod
    def of(cls, action: str, path: str, body: bytes) -> Call:
        """With its parameters, of JSON or of a form; what S3 is given has none."""
        if action.startswith("s3:"):
            return cls(action, path, {})
        if body.startswith(b"{"):
            return cls(action, path, json.loads(body))
        return cls(action, path, dict(urllib.parse.parse_qsl(body.decode(errors="replace"))))


@dataclass
class Faults:
    """The server, and what it answers. `seen` has every call as service:Action, in order."""

    url: str
    faults: dict[str, Fault] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    """The same calls, with their parameters."""
    delay_s: float = 0.0
    watching: list[Callable[[Call], None]] = field(default_factory=list)
    """Who is told of each call before it goes through."""
    silent: set[str] = field(default_factory=set)
    """Calls whose connection is closed without an answer."""

    def answer(
        self, action: str, code: str, message: str = "", *, status: int = 400, times: int = 1_000
    ) -> None:
        """Answer `service:Action`, or `*`, with an error."""
        self.faults[action] = Fault(code, message or code, status, times)

    def clear(self) -> None:
        """Let everything through, and forget what was seen."""
        self.faults.clear()
        self.seen.clear()
        self.calls.clear()
        self.silent.clear()
        self.delay_s = 0.0

    def fault_of(self, action: str) -> Fault | None:
        for name in (action, "*"):
            found = self.faults.get(name)
            if found is not None and found.times > 0:
                found.times -= 1
                return found
        return None

    @classmethod
    @contextmanager
    def before(cls, url: str) -> Iterator[Faults]:
        """Stand before a cloud."""
        server = http_server(_Handler)
        faults = cls(url_of(server))
        server.faults = faults  # type: ignore[attr-defined]
        server.behind = urllib.parse.urlsplit(url).netloc  # type: ignore[attr-defined]
        with running(server):
            yield faults


class _Handler(QuietHandler):
    protocol_version = "HTTP/1.1"

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else b""
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = self._chunks()
        faults: Faults = self.server.faults  # type: ignore[attr-defined]
        action = self._action(body)
        faults.seen.append(action)
        key = _KEY.search(self.headers.get("Authorization", ""))
        call = replace(Call.of(action, self.path, body), key=key[1] if key else "")
        faults.calls.append(call)
        for watcher in faults.watching:
            watcher(call)
        if action in faults.silent:
            self.close_connection = True
            return
        if faults.delay_s:
            time.sleep(faults.delay_s)
        fault = faults.fault_of(action)
        if fault is None and b"DryRun=true" in body:
            # moto does what it was to try only.
            fault = Fault("DryRunOperation", "Request would have succeeded, but DryRun flag is set.", 412, 1)
        if fault is not None:
            self._answer(fault.status, *_error(action, fault))
        else:
            self._pass_on(body)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve

    def _chunks(self) -> bytes:
        found = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def _action(self, body: bytes) -> str:
        scope = _SCOPE.search(self.headers.get("Authorization", ""))
        service = scope[1] if scope else "?"
        if target := self.headers.get("X-Amz-Target"):
            return f"{service}:{target.rpartition('.')[2]}"
        if found := re.search(rb"(?:^|&)Action=([A-Za-z0-9]+)", body):
            return f"{service}:{found[1].decode()}"
        return f"{service}:{self.command}"

    def _pass_on(self, body: bytes) -> None:
        behind: str = self.server.behind  # type: ignore[attr-defined]
        connection = http.client.HTTPConnection(behind, timeout=120)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _OF_CONNECTION}
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in _OF_CONNECTION | {"date", "server"}:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
        connection.close()

    def _answer(self, status: int, kind: str, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _error(action: str, fault: Fault) -> tuple[str, bytes]:
    """An error in the words of the service."""
    inner = f"<Code>{fault.code}</Code><Message>{fault.message}</Message>"
    service = action.partition(":")[0]
    if service == "ec2":
        text = f"<Response><Errors><Error>{inner}</Error></Errors><RequestID>1</RequestID></Response>"
        return "text/xml", text.encode()
    if service == "s3":
        return "application/xml", f"<Error>{inner}<RequestId>1</RequestId></Error>".encode()
    if service in ("fsx", "dynamodb", "secretsmanager", "tagging", "servicequotas", "kms", "ssm"):
        document = {"__type": fault.code, "message": fault.message}
        return "application/x-amz-json-1.1", json.dumps(document).encode()
    text = f"<ErrorResponse><Error><Type>Sender</Type>{inner}</Error><RequestId>1</RequestId></ErrorResponse>"
    return "text/xml", text.encode()
