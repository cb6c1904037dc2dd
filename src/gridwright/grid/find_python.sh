# Finds the Python on a node that has this very Gridwright, or else one that could have it.
# Arguments: the name of the part, the Python that asks, its version of Gridwright and of extensions
# (0.1.0 toy=1.0), its minor version of Python, names of extensions. Says one line.
name=$1 own=$2 same=$3 minor=$4
shift 4
versions='import sys
from importlib.metadata import version
import gridwright
print(gridwright.__version__, *(f"{each}={version(each)}" for each in sys.argv[1:]))'
part=
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gridwright
for each in "$cache/$name" "$cache/$name-"*; do
    # One of another node with the same home directory, or from before an upgrade, may not run here.
    if [ -e "$each/bin/python" ] && trusted_environment "$each" >&2 && "$each/bin/python" -P -c 'import gridwright._native' 2>/dev/null; then
        part=$each
    fi
done
environment=${own%/*}
if [ -x "$own" ] && trusted_environment "${environment%/*}" >&2 && [ "$("$own" -P -c "$versions" "$@" 2>/dev/null)" = "$same" ]; then
    echo "has $own"
elif [ "$part" ]; then
    touch -c "$part"
    echo "has $part/bin/python"
else
    for each in "python3.$minor" python3 python3.14 python3.13 python3.12 python3.11; do
        found=$(command -v "$each") || continue
        if "$found" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "lacks $(uname -m) $found"
            exit 0
        fi
    done
    echo "old $(python3 -V 2>&1)"
fi
