# Unpacks Gridwright's part for nodes, from stdin: a Python environment of its own, made whole or not at all.
# Arguments: the name of the part, the Python that it is for; then, if at all, the directory that it is put into
# (the user's cache by default; else a directory for each user in it), directories of packages that it has beside (joined by colons), and the word
# `look` to see only whether it is there. Says the path of its Python.
set -eu
[ -z "${3:-}" ] || trusted_way "$3" >&2
if [ "${3:-}" ] && ! [ -d "$3" ]; then
    # In a state directory of root's, root makes the part that users share; one of a user's own is that user's alone.
    mkdir -p "$(dirname "$3")"
    mode=700
    if [ "$(id -u)" = 0 ]; then
        mode=1777
    elif ! [ -O "$(dirname "$3")" ]; then
        echo "$3 is not there, and root makes it: gridwright setup" >&2
        exit 1
    fi
    mkdir -m "$mode" "$3" 2>/dev/null || [ -d "$3" ]
fi
umask 077
cache=${3:+$3/$(id -u)}
cache=${cache:-${XDG_CACHE_HOME:-$HOME/.cache}/gridwright}
place=$cache/$1
trusted_way "$cache" >&2
works() { "$1/bin/python" -P -c 'import gridwright._native' 2>/dev/null; }
if [ "${5:-}" ]; then
    trusted own "$cache" >&2 && works "$place" || exit 1
    touch -c "$place"
    echo "$place/bin/python"
    exit 0
fi
mkdir -p "$cache"
trusted own "$cache" >&2
# Parts that nobody has used for a month, and what an interrupted copy left. Others that copy to the same home
# directory come and go meanwhile: that what is found may be gone again is no failure.
find "$cache" -maxdepth 1 \( -name 'part-*' -o -name 'new-*' \) -mtime +30 -exec rm -rf {} + 2>/dev/null || :
new=$(mktemp -d "$cache/new-XXXXXX")
trap 'rm -rf "$new"' EXIT
python=$("$2" -I -c 'import os, sys; print(os.path.realpath(sys._base_executable))')
packages=$new/$("$python" -I -c 'import sys; print("lib/python%d.%d/site-packages" % sys.version_info[:2])')
mkdir -p "$packages" "$new/bin"
tar -xzf - -C "$packages"
[ -z "${4:-}" ] || printf '%s\n' "$4" | tr ':' '\n' > "$packages/beside.pth"
ln -s "$python" "$new/bin/python"
printf 'home = %s\ninclude-system-site-packages = false\n' "$(dirname "$python")" > "$new/pyvenv.cfg"
"$new/bin/python" -P -c 'import gridwright._native, psutil, tenacity'
# A part that is there may be for a Python that only other nodes have, or that is gone.
if [ -e "$place" ] && ! works "$place"; then place=$place-$(printf %s "$python" | cksum | cut -d ' ' -f 1); fi
# Another command, or another node with the same home directory, may have been faster.
mv -T "$new" "$place" 2>/dev/null || works "$place" || { echo "$place does not work: remove it" >&2; exit 1; }
echo "$place/bin/python"
