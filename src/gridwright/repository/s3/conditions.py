"""Conditions of requests, in the words of HTTP and of botocore."""

from __future__ import annotations

from gridwright.repository.store import WriteCondition


def headers_of(condition: WriteCondition) -> dict[str, str]:
    """A condition as headers have it."""
    if condition.none_there:
        return {"if-none-match": "*"}
    return {"if-match": f'"{condition.etag}"'} if condition.etag else {}


def parameters_of(condition: WriteCondition) -> dict[str, str]:
    """A condition as botocore has it."""
    if condition.none_there:
        return {"IfNoneMatch": "*"}
    return {"IfMatch": f'"{condition.etag}"'} if condition.etag else {}
