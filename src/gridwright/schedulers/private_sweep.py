"""The command that removes private directories of jobs that were killed with what would have removed them."""

from __future__ import annotations

from collections.abc import Sequence

SWEEP_AT_ONCE = 200
"""Prefixes in one command, so that its arguments stay short."""
SWEEP_TIMEOUT_S = 120.0
NO_LIBRARY = 3
"""Its exit status where the library is not seen there."""
HOLDS = r"""holds() {
    [ -k "$1" ] || [ -n "$(command -p find "$1/." -prune ! -perm -020 ! -perm -002 -print)" ]
}"""
"""A function of the shell: whether nobody but its owner can give a directory in $1 another name.

Elsewhere another user gives the name of a job that was killed to any directory of the job's user.
"""
_SWEEP = f"""library=$1
shift
[ -d "$library" ] || exit {NO_LIBRARY}
{HOLDS}
holds "$library" || exit 0
for prefix do
    for each in "$library/$prefix"*; do
        [ -d "$each" ] && [ -O "$each" ] && [ ! -L "$each" ] || continue
        # What a job made unwritable goes, too.
        rm -rf -- "$each" 2>/dev/null || {{ chmod -R u+rwx -- "$each" && rm -rf -- "$each"; }}
    done
done
exit 0
"""
"""Removes directories of this user's in its first argument whose names begin with one of the others."""


def sweep_command(library: str, prefixes: Sequence[str]) -> list[str]:
    """Program and arguments: removes directories of a library whose names begin with one of `prefixes`.

    Those of other users stay, as whoever lists jobs knows the names; so does all in a library that is not
    sticky, and that others may write: what has such a name there need not be what the job made.
    """
    return ["/bin/sh", "-c", _SWEEP, "sweep", library, *prefixes]
