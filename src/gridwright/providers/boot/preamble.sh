#!/bin/sh
# Written by Gridwright. It runs at every start of the machine, as root, and again with other settings after an update.
set -eu
umask 022
root="${GRIDWRIGHT_ROOT:-}"
mkdir -p "$root/etc/gridwright" "$root/var/lib/gridwright" "$root/var/log"
