#!/bin/sh
# What the wheel carries besides the package and is made of other files here: the pages of docs/ and the manual page.
#   packaging/carried.sh [PYTHON]
set -eu
python=$(command -v "${1:-python3}")
share=$(realpath "$(dirname "$0")")/wheel/data/share
rm -rf "$share/doc" "$share/man"
mkdir -p "$share/doc/gridwright" "$share/man/man1"
cp "$share"/../../../../docs/*.md "$share/doc/gridwright/"
"$python" -m gridwright.cli.shell.man_page >"$share/man/man1/gridwright.1"
