#!/bin/sh
# Written by Gridwright. Makes this machine one to take an image of, as root: only for a machine that is there for that.
set -eu
umask 022
root="${GRIDWRIGHT_ROOT:-}"
here=$(cd "$(dirname "$0")" && pwd)
# Others install packages while a machine starts for the first time.
if command -v cloud-init > /dev/null; then cloud-init status --wait > /dev/null || true; fi
mkdir -p "$root/var/lib/gridwright" "$root/usr/local/lib/gridwright"
exec sh "$here/begin.sh" "$here/bake.py" "$here/boto3.lock"
