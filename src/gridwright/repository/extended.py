"""Extended attributes and ACLs, which objects do not keep: the manifest has them."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping

_OURS = ("trusted.gridwright.", "user.gridwright.")
"""What a file says of its object, and what is loaded of it, holds for this very file."""
_KEPT = ("user.", "system.posix_acl_", "trusted.")
"""Security labels and capabilities are the system's own, and not carried to another one, as setuid is not."""
_LEFT = ("trusted.lov", "trusted.hsm", "trusted.lma", "trusted.link", "trusted.overlay.", "trusted.SGI_ACL")
"""Attributes of file systems themselves belong to the one where they are."""


def _travels(name: str) -> bool:
    return name.startswith(_KEPT) and not name.startswith((*_OURS, *_LEFT))


def read_xattrs(file: int | bytes) -> bytes | None:
    """The extended attributes of a file that travel, encoded; None for none. Raises OSError."""
    follow = {} if isinstance(file, int) else {"follow_symlinks": False}
    try:
        names = os.listxattr(file, **follow)
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.EOPNOTSUPP):
            return None
        raise
    kept = [name for name in names if _travels(name)]
    return encode({name: os.getxattr(file, name, **follow) for name in kept}) if kept else None


def encode(attributes: Mapping[str, bytes]) -> bytes:
    """Attributes as one value."""
    return json.dumps({name: attributes[name].hex() for name in sorted(attributes)}).encode()


def decode(value: bytes) -> dict[str, bytes]:
    """Attributes of a value. Raises ValueError."""
    found = json.loads(value)
    if not isinstance(found, dict):
        raise ValueError("no attributes")
    return {str(name): bytes.fromhex(text) for name, text in found.items() if _travels(str(name))}


def write_xattrs(file: int | bytes, value: bytes) -> None:
    """Give a file the attributes of a value. Raises OSError, and ValueError."""
    follow = {} if isinstance(file, int) else {"follow_symlinks": False}
    for name, data in decode(value).items():
        os.setxattr(file, name, data, **follow)
