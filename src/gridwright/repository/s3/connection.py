"""How a bucket is reached: endpoint, region, credentials and TLS, by the chain that tools of AWS share.

A store may be anybody's: limits of its answers are here, so that none holds a command up for ever.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from gridwright.endpoints import INSTEAD, why_no_endpoint, why_no_prefix
from gridwright.errors import environment_error, input_error
from gridwright.own_directories import hold_settings_of_home
from gridwright.secret_text import masked

LONGEST_BODY = 5 << 20
"""Bytes of an answer that is taken as a whole: a page of a listing has 1,000 keys of 1 KiB, as `%41` each."""
PATIENCE_S = 60.0
"""After so many seconds of waiting alone an answer that has brought too little is given up."""
SLOWEST = 1024
"""Bytes a second that an answer has to bring."""
_PIECE = 64 << 10


class TooMuch(Exception):
    """An answer is longer than any that is asked for, or comes too slowly to be waited for."""


class AnswerLimits:
    """Counts what an answer brings, and how long was waited for it. One thread uses it."""

    def __init__(self) -> None:
        self._waited_s, self._bytes = 0.0, 0

    def begin(self) -> None:
        """Begin with another answer."""
        self._waited_s, self._bytes = 0.0, 0

    def got(self, count: int, waited_s: float) -> None:
        """Count what came in so many seconds of waiting. Raises TooMuch."""
        self._bytes += count
        self._waited_s += waited_s
        if self._waited_s > PATIENCE_S:
            if self._bytes < PATIENCE_S * SLOWEST:
                raise TooMuch(f"it gave {self._bytes} bytes in {self._waited_s:.0f} s")
            self.begin()


class BoundedSession:
    """botocore's session of HTTP, whose answers are read with these bounds."""

    def __init__(self, session: Any) -> None:  # noqa: ANN401 - botocore's
        self._session = session

    def send(self, request: Any) -> Any:  # noqa: ANN401
        """Send a request; the answer to it. Raises BotoCoreError."""
        is_stream, request.stream_output = request.stream_output, True
        try:
            answer = self._session.send(request)
        finally:
            request.stream_output = is_stream
        answer.raw = _BoundedBody(answer.raw)
        if not is_stream:
            # botocore reads it here, too, so that what breaks is an error of the connection.
            _ = answer.content
        return answer

    def close(self) -> None:
        """Close it."""
        self._session.close()


class _BoundedBody:
    """A body of an answer, as urllib3 has it."""

    def __init__(self, raw: Any) -> None:  # noqa: ANN401
        self._raw = raw
        self._limits = AnswerLimits()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._raw, name)

    def stream(self) -> Iterator[bytes]:
        """All of it, up to what is taken as a whole. Raises BotoCoreError."""
        total = 0
        while piece := self._some(_PIECE):
            total += len(piece)
            if total > LONGEST_BODY:
                raise _failure(TooMuch(f"its answer has more than {LONGEST_BODY} bytes"))
            yield piece

    def read(self, amt: int | None = None) -> bytes:
        """So many bytes, or less at the end; None reads all of it. Raises BotoCoreError."""
        if amt is None:
            return b"".join(self.stream())
        pieces, left = [], amt
        while left and (piece := self._some(left)):
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)

    def _some(self, most: int) -> bytes:
        from urllib3.exceptions import HTTPError

        since_s = time.monotonic()
        try:
            # urllib3 1.26 has no read1, and waits until it has all.
            found = (
                self._raw.read1(most) if hasattr(self._raw, "read1") else self._raw.read(min(most, SLOWEST))
            )
            self._limits.got(len(found), time.monotonic() - since_s)
        except (HTTPError, OSError, TooMuch) as error:
            raise _failure(error) from error
        return bytes(found)


def _failure(error: Exception) -> Any:  # noqa: ANN401 - botocore has no types
    from botocore.exceptions import HTTPClientError

    failure: Exception = HTTPClientError(error=error)
    return failure


CONNECT_S, READ_S = 5, 30
_PAIR = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
DEFAULT_REGION = "us-east-1"
_REMEDY_OF_SETTINGS = (
    "set AWS_PROFILE to one of those that `aws configure list-profiles` has, or unset it; else look at "
    "~/.aws/config and at the variables AWS_*"
)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", re.ASCII)


@dataclass(frozen=True, slots=True)
class BucketLocation:
    """A bucket and a prefix of it, as `s3://bucket/prefix` names them."""

    bucket: str
    prefix: str

    @property
    def url(self) -> str:
        """`s3://bucket` or `s3://bucket/prefix`."""
        return f"s3://{self.bucket}" + (f"/{self.prefix}" if self.prefix else "")

    @classmethod
    def parse(cls, url: str) -> BucketLocation:
        """Read a URL. Raises GridwrightError."""
        bucket, _, prefix = url.removeprefix("s3://").partition("/")
        if not url.startswith("s3://") or _BUCKET.fullmatch(bucket) is None:
            raise input_error(
                f"{masked(url)[:80]!r} is not a bucket",
                remedy="write one, such as s3://bucket or s3://bucket/prefix",
            )
        if reason := why_no_prefix(url):
            raise input_error(
                f"{masked(url)[:80]!r} {reason}",
                remedy="write bucket and prefix as they are: s3://bucket/prefix",
            )
        return cls(bucket, prefix.strip("/"))


class LazyClient:
    """A client of botocore, made when it is needed: few transfers do, and it takes 14 MiB and 0.4 s."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: Any = None

    def get(self) -> Any:  # noqa: ANN401
        """The client. Raises BotoCoreError."""
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made


@dataclass(frozen=True, slots=True)
class BucketConnection:
    """What a client needs to reach one bucket."""

    bucket: str
    region: str
    scheme: str
    host: str
    """As the Host header has it: with the port where it is not the scheme's own."""
    path: str
    """What comes before `/KEY` in the path of a request: `/BUCKET`, or nothing where the host has it."""
    session: Any
    """botocore's session: credentials are asked of it, each time anew, so that they may be rolled over."""
    lazy_client: LazyClient
    requester_pays: bool = False

    @property
    def client(self) -> Any:  # noqa: ANN401
        """The client of botocore. It tries once: tries are counted in one place (`tries.py`)."""
        return self.lazy_client.get()

    @property
    def store(self) -> str:
        """Which store it is: a partition of AWS, where one bucket has a name, or the host of another one."""
        if found := re.search(r"(us-gov-)?[^.]*\.amazonaws\.com(\.cn)?$", self.host):
            return "aws-us-gov" if found[1] else f"aws{(found[2] or '').replace('.', '-')}"
        return self.host.lower() + self.path.removesuffix(f"/{self.bucket}")


def connect(
    bucket: str, *, endpoint_url: str | None = None, profile: str | None = None, requester_pays: bool = False
) -> BucketConnection:
    """Find out how the bucket is reached, without asking it.

    The endpoint is `endpoint_url`, AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, the profile's, or AWS's own.
    Raises GridwrightError where credentials lack, or where the endpoint has no TLS and is not this machine.
    """
    try:
        _import_botocore()
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
        from botocore.session import get_session
    except ImportError:
        raise environment_error(
            "boto3, which asks buckets, is not installed",
            remedy="pip install 'gridwright[repository]'",
        ) from None
    config = Config(
        connect_timeout=CONNECT_S,
        read_timeout=READ_S,
        retries={"total_max_attempts": 1, "mode": "standard"},
        max_pool_connections=32,
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    hold_settings_of_home()
    try:
        session = get_session()
        if profile is not None:
            session.set_config_variable("profile", profile)
        region = session.get_config_variable("region") or DEFAULT_REGION

        def make() -> Any:  # noqa: ANN401 - botocore's
            made = session.create_client("s3", region_name=region, endpoint_url=endpoint_url, config=config)
            made._endpoint.http_session = BoundedSession(made._endpoint.http_session)
            return made

        client = LazyClient(make)
        endpoint = endpoint_url or _configured_endpoint(session)
        endpoint = endpoint or client.get().meta.endpoint_url
        if reason := why_no_endpoint(endpoint):
            raise input_error(
                f"the endpoint of s3://{bucket} {reason}",
                remedy=f"{INSTEAD}; AWS_CA_BUNDLE names a site's own authority",
            )
        if session.get_credentials() is None:
            raise environment_error(
                "no credentials for the bucket were found",
                where=f"s3://{bucket}",
                remedy=_lacking()
                or f"set them as for the AWS command line: a role, AWS_PROFILE, or {' and '.join(_PAIR)}",
            )
    except BotoCoreError as error:
        raise environment_error(
            f"the bucket was not asked: {error}",
            where=f"s3://{bucket}",
            remedy=_lacking() or _REMEDY_OF_SETTINGS,
        ) from error
    return _located(bucket, region, endpoint, client, session, requester_pays)


def _lacking() -> str | None:
    """What to do where the environment has an access key without its secret, or the other way round."""
    lacking = [each for each in _PAIR if not os.environ.get(each)]
    return f"set {lacking[0]}, too: access key and secret go together" if len(lacking) == 1 else None


def _import_botocore() -> None:
    """Import it without pyOpenSSL: 10 MiB for a class that urllib3 has, too. Raises ImportError."""
    other = "urllib3.contrib.pyopenssl"
    if other in sys.modules:
        return
    sys.modules[other] = None  # type: ignore[assignment]
    try:
        import botocore.session  # noqa: F401
    finally:
        del sys.modules[other]


def _configured_endpoint(session: Any) -> str | None:  # noqa: ANN401 - botocore's
    """The endpoint that environment or profile name; None for AWS's own."""
    from botocore.configprovider import ConfiguredEndpointProvider

    if session.get_config_variable("ignore_configured_endpoint_urls"):
        return None
    found = ConfiguredEndpointProvider(session.full_config, session.get_scoped_config(), "s3").provide()
    return str(found) if found else None


def _located(
    bucket: str,
    region: str,
    url: str,
    client: LazyClient,
    session: Any,  # noqa: ANN401 - botocore's
    requester_pays: bool,
) -> BucketConnection:
    parts = urlsplit(url)
    if parts.scheme == "https" and (file := authority_file()) is not None:
        _refuse_unreadable(file)
    host = parts.netloc
    is_aws = re.fullmatch(r"s3[.-].*amazonaws\.com(\.cn)?|s3\.amazonaws\.com", host) is not None
    # A certificate of *.s3.REGION.amazonaws.com has no bucket with a dot in its name.
    by_host = is_aws and "." not in bucket
    return BucketConnection(
        bucket=bucket,
        region=region,
        scheme=parts.scheme,
        host=f"{bucket}.{host}" if by_host else host,
        path=parts.path.rstrip("/") + ("" if by_host else f"/{bucket}"),
        session=session,
        lazy_client=client,
        requester_pays=requester_pays,
    )


def _refuse_unreadable(file: str) -> None:
    import ssl

    try:
        ssl.create_default_context(cafile=file)
    except (OSError, ValueError) as error:
        raise input_error(
            f"the certificates of the site's own authority cannot be read: {error}",
            where=f"AWS_CA_BUNDLE, {file}",
            remedy="name a file of certificates in PEM, or unset the variable",
        ) from error


def authority_file() -> str | None:
    """The certificates of a site's own authority, as botocore takes them too."""
    return os.environ.get("AWS_CA_BUNDLE") or None
