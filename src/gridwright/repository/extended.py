"""Extended attributes and ACLs, which objects do not keep: the manifest has them."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress

from gridwright.beneath import change_xattr, descriptor_path

_OURS = ("trusted.gridwright.", "user.gridwright.")
"""What a file says of its object, and what is loaded of it, holds for this very file."""
_KEPT = ("user.", "system.posix_acl_", "trusted.")
"""Security labels and capabilities are the system's own, and not carried to another one, as setuid is not."""
_LEFT = ("trusted.lov", "trusted.hsm", "trusted.lma", "trusted.link", "trusted.overlay.", "trusted.SGI_ACL")
"""Attributes of file systems themselves belong to the one where they are."""
_LONGEST_NAME = 255
"""XATTR_NAME_MAX of Linux."""
LONGEST_XATTRS = 1 << 17
"""Bytes of all attributes of a file as one value: two of the longest that Linux has, XATTR_SIZE_MAX."""
_USERS = ("user.", "system.posix_acl_")
_ACLS = ("system.posix_acl_access", "system.posix_acl_default")


def is_of_users(name: str) -> bool:
    """Whether the owner of a file may give it an attribute: none of these gives rights."""
    return name.startswith(_USERS) and _travels(name)


def _travels(name: str) -> bool:
    return name.startswith(_KEPT) and not name.startswith((*_OURS, *_LEFT))


def xattr_names(file: int | bytes) -> list[str]:
    """The extended attributes of an open or pinned file, or of a path, not followed. Raises OSError."""
    try:
        if not isinstance(file, int):
            return os.listxattr(file, follow_symlinks=False)
        try:
            return os.listxattr(file)
        except OSError as error:
            if error.errno != errno.EBADF:  # Of what is pinned.
                raise
            return os.listxattr(descriptor_path(file))
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.EOPNOTSUPP):
            return []
        raise


def read_xattrs(file: int | bytes, names: Sequence[str] | None = None) -> bytes | None:
    """Those of its `xattr_names` that travel, encoded; None for none. Raises OSError."""
    is_open = isinstance(file, int)
    path = descriptor_path(file) if isinstance(file, int) else file
    kept = [name for name in (xattr_names(file) if names is None else names) if _travels(name)]
    return encode({name: os.getxattr(path, name, follow_symlinks=is_open) for name in kept}) if kept else None


def encode(attributes: Mapping[str, bytes]) -> bytes:
    """Attributes as one value."""
    return json.dumps({name: attributes[name].hex() for name in sorted(attributes)}).encode()


def decode(value: bytes) -> dict[str, bytes]:
    """Attributes of a value. Raises ValueError."""
    return {name: bytes.fromhex(text) for name, text in _decoded(value).items() if _travels(name)}


def _decoded(value: bytes) -> dict[str, str]:
    try:
        found = json.loads(value)
    except RecursionError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
        raise ValueError("no attributes")
    if any("\0" in name or not 0 < len(os.fsencode(name)) <= _LONGEST_NAME for name in found):
        raise ValueError("an attribute has no name that Linux has")
    return found


def of_users(value: bytes) -> tuple[dict[str, bytes], bool]:
    """Attributes that owners of files may give, and whether the value has others. Raises ValueError."""
    found = _decoded(value)
    given = {name: bytes.fromhex(text) for name, text in found.items() if is_of_users(name)}
    return given, len(given) < len(found)


def are_attributes(value: bytes) -> bool:
    """Whether a value is one that `encode` can have made."""
    try:
        of_users(value)
    except ValueError:
        return False
    return True


def drop_inherited_acl(descriptor: int, *, is_directory: bool = True) -> None:
    """Take from a file or directory just made what the default ACL of its directory gave it.

    Otherwise the first change of its mode lets in whom that ACL names (acl(5), object creation).
    """
    # A default one is given to directories alone.
    for name in _ACLS if is_directory else _ACLS[:1]:
        with suppress(OSError):  # ENODATA, or a file system without ACLs.
            change_xattr(descriptor, name, None)


def open_nameless(directory: int) -> int:
    """Make a file without a name, in an open directory, that its owner alone may read; its descriptor.

    Raises OSError: one of `NOT_NAMELESS` where the file system has no such files (O_TMPFILE in open(2)).
    """
    descriptor = os.open(b".", os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600, dir_fd=directory)
    drop_inherited_acl(descriptor, is_directory=False)
    return descriptor


NOT_NAMELESS = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOSYS})


def acls_of(value: bytes | None) -> dict[str, bytes]:
    """The ACLs of a value."""
    return {name: data for name, data in decode(value or b"{}").items() if name in _ACLS}


def give_xattrs(descriptor: int, value: bytes | None, *, with_acls: bool = True) -> None:
    """Give an open file the attributes of a value, and take others away that its owner may give.

    Raises OSError, and ValueError.
    """
    for name, data in xattrs_to_give(read_xattrs(descriptor), value, with_acls=with_acls).items():
        change_own_xattr(descriptor, name, data)


def change_own_xattr(descriptor: int, name: str, value: bytes | None) -> None:
    """As `change_xattr`, also of a file or a directory that its owner has made read-only. Raises OSError.

    Those of users (`user.`) are changed only by who may write to it (xattr(7)).
    """
    try:
        change_xattr(descriptor, name, value)
    except PermissionError:
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        if mode & stat.S_IWUSR:
            raise
        os.fchmod(descriptor, mode | stat.S_IWUSR)
        try:
            change_xattr(descriptor, name, value)
        finally:
            os.fchmod(descriptor, mode)


def xattrs_to_give(
    here: bytes | None, value: bytes | None, *, with_acls: bool = True
) -> dict[str, bytes | None]:
    """What gives a file that has those `here` the attributes of a value; None for each that goes.

    Raises ValueError.
    """
    given, own = decode(value or b"{}"), decode(here or b"{}")
    names = (given.keys() | own.keys()) - (set() if with_acls else set(_ACLS))
    return {each: given.get(each) for each in names if is_of_users(each) and given.get(each) != own.get(each)}
