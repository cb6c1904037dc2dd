# Unpacks Gridwright's part for nodes, from stdin: a Python environment of its own, made whole or not at all.
# Arguments: the name of the part, the Python that it is for. Says the path of its Python.
set -eu
umask 077
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gridwright
mkdir -p "$cache"
# Parts that nobody has used for a month, and what an interrupted copy left.
find "$cache" -maxdepth 1 \( -name 'part-*' -o -name 'new-*' \) -mtime +30 -exec rm -rf {} +
new=$(mktemp -d "$cache/new-XXXXXX")
trap 'rm -rf "$new"' EXIT
python=$("$2" -c 'import os, sys; print(os.path.realpath(sys._base_executable))')
packages=$new/$("$python" -c 'import sys; print("lib/python%d.%d/site-packages" % sys.version_info[:2])')
mkdir -p "$packages" "$new/bin"
tar -xzf - -C "$packages"
ln -s "$python" "$new/bin/python"
printf 'home = %s\ninclude-system-site-packages = false\n' "$(dirname "$python")" > "$new/pyvenv.cfg"
"$new/bin/python" -P -c 'import gridwright._native, psutil, tenacity'
# Another command, or another node with the same home directory, may have been faster.
mv -T "$new" "$cache/$1" 2>/dev/null || [ -x "$cache/$1/bin/python" ]
echo "$cache/$1/bin/python"
