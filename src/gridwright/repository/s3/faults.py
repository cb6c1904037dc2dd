"""What a store's refusals mean, of its own answers and from botocore."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime

from gridwright.repository.store import StoreError, StoreFault

_BY_CODE = {
    "NoSuchKey": StoreFault.NOT_THERE,
    "NoSuchVersion": StoreFault.NOT_THERE,
    "NoSuchBucket": StoreFault.NO_BUCKET,
    "NotFound": StoreFault.NOT_THERE,
    "PreconditionFailed": StoreFault.CHANGED,
    "ConditionalRequestConflict": StoreFault.CONFLICT,
    "OperationAborted": StoreFault.CONFLICT,
    "AccessDenied": StoreFault.FORBIDDEN,
    "AllAccessDisabled": StoreFault.FORBIDDEN,
    "SignatureDoesNotMatch": StoreFault.FORBIDDEN,
    "InvalidAccessKeyId": StoreFault.FORBIDDEN,
    "XAdminUserNotFound": StoreFault.FORBIDDEN,  # versitygw's, with status 404
    "ExpiredToken": StoreFault.FORBIDDEN,
    "TokenRefreshRequired": StoreFault.FORBIDDEN,
    "InvalidToken": StoreFault.FORBIDDEN,
    "RequestTimeTooSkewed": StoreFault.FORBIDDEN,
    "InvalidObjectState": StoreFault.ARCHIVED,
    "SlowDown": StoreFault.THROTTLED,
    "Throttling": StoreFault.THROTTLED,
    "RequestLimitExceeded": StoreFault.THROTTLED,
    "InternalError": StoreFault.UNREACHABLE,
    "ServiceUnavailable": StoreFault.UNREACHABLE,
    "NotImplemented": StoreFault.UNSUPPORTED,
    "MethodNotAllowed": StoreFault.UNSUPPORTED,
    "BadDigest": StoreFault.DAMAGED,
    "XAmzContentChecksumMismatch": StoreFault.DAMAGED,
}
_BY_STATUS = {
    401: StoreFault.FORBIDDEN,
    403: StoreFault.FORBIDDEN,
    404: StoreFault.NOT_THERE,
    405: StoreFault.UNSUPPORTED,
    412: StoreFault.CHANGED,
    429: StoreFault.THROTTLED,
    501: StoreFault.UNSUPPORTED,
    503: StoreFault.THROTTLED,
}
_SKEW = "RequestTimeTooSkewed"
_UNKNOWN = "look at the access key and its secret: the store knows no such pair"
_EXPIRED = "get new credentials (aws sso login, or another session): these have expired, or were revoked"
_EXPIRED_PERHAPS = "look whether the credentials have expired; else at what the store means by that status"
_REMEDIES = {
    _SKEW: "set the clock of this machine (chronyc makestep): stores refuse what is signed 15 minutes off",
    "ExpiredToken": _EXPIRED,
    "TokenRefreshRequired": _EXPIRED,
    "InvalidToken": _EXPIRED,
    "InvalidAccessKeyId": _UNKNOWN,
    "XAdminUserNotFound": _UNKNOWN,
    "SignatureDoesNotMatch": _UNKNOWN,
}
"""What to do, where the fault says too little: no right that is given would help."""
_LARGEST_SKEW_S = 300.0
_CODE = re.compile(rb"<Code>([A-Za-z0-9]{1,64})</Code>")
_MESSAGE = re.compile(rb"<Message>([^<]{1,300})</Message>")


def fault_of(status: int, code: str, operation: str) -> StoreFault:
    """The fault of a response, by its HTTP status and the code of its body, which may be empty."""
    if code in _BY_CODE:
        return _BY_CODE[code]
    if status == 404 and operation == "ListObjectsV2":
        # No object was asked for, and a store says with a code that it has no such bucket.
        return StoreFault.UNSUPPORTED
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return StoreFault.UNREACHABLE if status >= 500 else StoreFault.REFUSED


@contextmanager
def botocore_faults(url: str) -> Iterator[None]:
    """Turn what botocore raises into a StoreError of that object or bucket."""
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    try:
        yield
    except ClientError as error:
        answer = error.response.get("ResponseMetadata", {})
        status = answer.get("HTTPStatusCode", 0)
        detail = error.response.get("Error", {})
        code = detail.get("Code", "")
        said = detail.get("Message") or code
        # Of an answer without a body, botocore gives the number and its phrase: the status says the same.
        said = "" if code == str(status) else said
        if status == 403 and (not said or code == _SKEW) and (skew := _skew(answer.get("HTTPHeaders", {}))):
            code, said = _SKEW, skew
        remedy = _REMEDIES.get(code)
        if status == 400 and not said and error.operation_name.startswith("Head"):
            # No body says why; S3 answers so where a token has expired.
            remedy = _EXPIRED_PERHAPS
        raise StoreError(
            fault_of(status, code, error.operation_name), url, said, error.operation_name, status, remedy
        ) from error
    except RecursionError:
        # botocore asks the address again that sends it elsewhere, for the region of the bucket.
        said = "it sends every request to another address: name that one as the endpoint"
        raise StoreError(StoreFault.UNSUPPORTED, url, said) from None
    except ResponseParserError as error:
        raise StoreError(StoreFault.UNSUPPORTED, url, f"its answer cannot be read ({error})") from error
    except BotoCoreError as error:
        raise StoreError(StoreFault.UNREACHABLE, url, str(error)) from error


def _skew(headers: Mapping[str, str]) -> str:
    """How far the clock of this machine is off that of the store; empty where they agree, or nothing tells.

    The answer to a HEAD has no body that would say so.
    """
    try:
        off_s = time.time() - parsedate_to_datetime(headers["date"]).timestamp()
    except (KeyError, ValueError, OverflowError):
        return ""
    side = "ahead of" if off_s > 0 else "behind"
    return (
        f"this machine's clock is {abs(off_s):.0f} s {side} the store's"
        if abs(off_s) > _LARGEST_SKEW_S
        else ""
    )


def missing(url: str, operation: str, what: str) -> StoreError:
    """An answer of success that lacks what S3 says in it."""
    return StoreError(StoreFault.UNSUPPORTED, url, f"its answer has no {what}", operation)


def refusal(status: int, body: bytes, url: str, operation: str) -> StoreError:
    """The StoreError of an answer over HTTP that is no success."""
    code = found[1].decode() if (found := _CODE.search(body)) else ""
    said = found[1].decode("utf-8", "replace") if (found := _MESSAGE.search(body)) else code
    return StoreError(fault_of(status, code, operation), url, said, operation, status, _REMEDIES.get(code))
