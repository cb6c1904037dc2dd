"""Endpoints of stores and URLs of buckets, as people write them into a grid spec, a flag or a profile."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

_HOST = re.compile(r"[A-Za-z0-9.:_%-]+", re.ASCII)
INSTEAD = (
    "write one, such as https://s3.example.org or http://127.0.0.1:9000; credentials come from the profile "
    "or the environment"
)


def why_no_endpoint(url: str) -> str | None:
    """Why a URL is no endpoint, without the URL, which may have a password; None for a good one."""
    try:
        parts = urlsplit(url)
        host = parts.hostname if parts.port != 0 else None
    except ValueError:
        return "cannot be read as a URL"
    if parts.username is not None or parts.password is not None:
        return "has a user or a password in it, which would be seen in lists of processes and in logs"
    if parts.scheme not in ("http", "https"):
        return "does not begin with https://, or with http:// for a store on this machine"
    if not host or not _HOST.fullmatch(host):
        return "has no host, or a port that is none"
    if parts.scheme == "http" and not is_loopback(host):
        return "has no TLS: credentials and data would go through the network in the open"
    return "has a query or a fragment" if parts.query or parts.fragment else None


def why_no_prefix(bucket_url: str) -> str | None:
    """Why the prefix of a bucket's URL would not be what its writer means; None for a good one, and none."""
    steps = bucket_url.partition("://")[2].split("/")[1:]
    return "has . or .. in its prefix, which lead nowhere in a bucket" if {".", ".."} & {*steps} else None


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, by its address or as `localhost`; no name is looked up."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
