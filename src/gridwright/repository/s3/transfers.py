"""Requests that move data, and the many small ones, by awscrt: without Python in the way of the bytes."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any
from urllib.parse import quote

from gridwright.repository.s3.connection import CONNECT_S, BucketConnection, authority_file
from gridwright.repository.s3.faults import crt_fault
from gridwright.repository.s3.parts import PART_BYTES
from gridwright.repository.store import Progress, StoreError, StoreFault, Upload

MOST_MEMORY = 1 << 30
"""Bytes of buffers for parts: the least that awscrt takes."""
RETRIES = 5
_PAUSE_MS, _LONGEST_PAUSE_S = 200, 20
Headers = Sequence[tuple[str, str]]


class Response:
    """What came of a request: headers by their names in lower case, and a body where it was asked for."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.body = bytearray()

    def on_headers(self, status_code: int, headers: Headers, **_: Any) -> None:  # noqa: ANN401 - awscrt's
        """Note headers; those of the last try remain."""
        self.headers = {name.lower(): value for name, value in headers}
        self.body.clear()

    def on_body(self, chunk: bytes, offset: int, **_: Any) -> None:  # noqa: ANN401
        """Note a piece of the body."""
        self.body += chunk


class Transfers:
    """Requests to one bucket by awscrt's S3 client."""

    def __init__(self, connection: BucketConnection, *, pause_ms: int = _PAUSE_MS) -> None:
        from awscrt import auth, s3

        self._connection = connection
        signing = s3.create_default_s3_signing_config(
            region=connection.region,
            credential_provider=auth.AwsCredentialsProvider.new_delegate(self._credentials),
        )
        is_secure = connection.scheme == "https"
        self._client = s3.S3Client(
            region=connection.region,
            tls_mode=s3.S3RequestTlsMode.ENABLED if is_secure else s3.S3RequestTlsMode.DISABLED,
            tls_connection_options=_own_authority() if is_secure else None,
            signing_config=signing,
            part_size=PART_BYTES,
            multipart_upload_threshold=PART_BYTES,
            memory_limit=MOST_MEMORY,
            retry_config=s3.S3RetryConfig(
                max_retries=RETRIES,
                backoff_scale_factor_ms=pause_ms,
                max_backoff_secs=_LONGEST_PAUSE_S,
                # Many objects fail for the same reason at once, and each shall have its tries.
                retry_mode=s3.S3RetryMode.EXPONENTIAL_BACKOFF,
            ),
            connect_timeout_ms=CONNECT_S * 1000,
        )
        self._running: set[Any] = set()

    def _credentials(self) -> Any:  # noqa: ANN401 - awscrt has no types here
        from awscrt.auth import AwsCredentials

        frozen = self._connection.session.get_credentials().get_frozen_credentials()
        return AwsCredentials(frozen.access_key, frozen.secret_key, frozen.token)

    def url(self, key: str) -> str:
        """How an object is called in messages."""
        return f"s3://{self._connection.bucket}/{key}"

    def ask(
        self,
        method: str,
        operation: str,
        key: str,
        *,
        headers: Headers = (),
        query: str = "",
        body: bytes | None = None,
    ) -> Future[Response]:
        """One request that is not split, and its whole response."""
        from awscrt.s3 import S3RequestType

        length = [] if body is None else [("content-length", str(len(body)))]
        request = self._request(
            method, key, [*headers, *length], query, io.BytesIO(body) if body is not None else None
        )
        return self._start(key, S3RequestType.DEFAULT, request, operation_name=operation)

    def send(self, key: str, upload: Upload, headers: Headers, progress: Progress | None) -> Future[Response]:
        """Make a small object of an upload."""
        from awscrt.s3 import S3RequestType

        body = _Body(upload)
        request = self._request("PUT", key, [*headers, ("content-length", str(upload.size))], "", body)
        return self._start(
            key, S3RequestType.PUT_OBJECT, request, failure=lambda: body.failure, progress=progress
        )

    def receive(
        self, key: str, descriptor: int, headers: Headers, query: str, progress: Progress | None
    ) -> Future[Response]:
        """Write a small object's content into an open file, by one request."""
        from awscrt.s3 import S3RequestType

        request = self._request("GET", key, headers, query, None)
        return self._start(
            key, S3RequestType.DEFAULT, request, operation_name="GetObject", progress=progress,
            recv_filepath=f"/proc/self/fd/{descriptor}",
        )  # fmt: skip

    def close(self) -> None:
        """Give up all requests."""
        for each in list(self._running):
            each.cancel()

    def _request(self, method: str, key: str, headers: Headers, query: str, body: Any) -> Any:  # noqa: ANN401
        from awscrt.http import HttpHeaders, HttpRequest

        path = f"{self._connection.path}/{quote(key, safe='/~')}{query}"
        payer = [("x-amz-request-payer", "requester")] if self._connection.requester_pays else []
        all_headers = HttpHeaders([("host", self._connection.host), *headers, *payer])
        return HttpRequest(method, path, all_headers, body)

    def _start(
        self,
        key: str,
        kind: Any,  # noqa: ANN401
        request: Any,  # noqa: ANN401
        *,
        failure: Callable[[], BaseException | None] = lambda: None,
        progress: Progress | None = None,
        **settings: Any,  # noqa: ANN401
    ) -> Future[Response]:
        response, done = Response(), Future[Response]()
        done.set_running_or_notify_cancel()
        holder: list[Any] = []

        def finish(error: BaseException | None = None, **_: Any) -> None:  # noqa: ANN401
            self._running.difference_update(holder)
            if error is None:
                done.set_result(response)
            else:
                done.set_exception(failure() or crt_fault(error, self.url(key)))

        if "recv_filepath" not in settings:
            settings["on_body"] = response.on_body
        made = self._client.make_request(
            type=kind,
            request=request,
            on_headers=response.on_headers,
            on_done=finish,
            on_progress=(lambda moved, **_: progress(moved)) if progress else None,
            **settings,
        )
        holder.append(made)
        if not done.done():
            self._running.add(made)
            if done.done():
                self._running.discard(made)
        return done


class _Body:
    """An upload as awscrt reads it; keeps why it was given up, which awscrt would tell in a number."""

    def __init__(self, upload: Upload) -> None:
        self._upload = upload
        self.failure: BaseException | None = None

    def read(self, _size: int = -1) -> bytes:
        """Not used: awscrt prefers `readinto1`, and asks whether there is a `read`."""
        raise NotImplementedError

    def readinto1(self, buffer: memoryview) -> int:
        """Fill a buffer of a part.

        Content that ends too early has awscrt give the request up; an exception it would print.
        """
        if self.failure is not None:
            return 0
        try:
            return self._upload.readinto(buffer)
        except BaseException as error:
            self.failure = error
            return 0

    def seek(self, _offset: int, _whence: int = 0) -> int:
        """Refused: what was read once may be another thing the second time."""
        self.failure = StoreError(StoreFault.REFUSED, "", "the upload was to be read again")
        return 0


def _own_authority() -> Any:  # noqa: ANN401
    from awscrt.io import ClientTlsContext, TlsContextOptions

    file = authority_file()
    if file is None:
        return None
    options = TlsContextOptions()
    options.override_default_trust_store_from_path(None, file)
    return ClientTlsContext(options).new_connection_options()


def metadata_headers(metadata: Mapping[str, str]) -> list[tuple[str, str]]:
    """User metadata as headers."""
    return [(f"x-amz-meta-{name}", value) for name, value in metadata.items()]
