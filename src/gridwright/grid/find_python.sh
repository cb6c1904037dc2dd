# Finds the Python on a node that has this very Gridwright, or else one that could have it.
# Arguments: the name of the part, the Python that asks, its version of Gridwright, its minor
# version of Python. Says one line.
part=
for each in "${XDG_CACHE_HOME:-$HOME/.cache}/gridwright/$1"*; do
    # One of another node with the same home directory, or from before an upgrade, may not run here.
    if "$each/bin/python" -P -c 'import gridwright._native' 2>/dev/null; then part=$each; fi
done
if [ -x "$2" ] && [ "$("$2" -P -c 'import gridwright; print(gridwright.__version__)' 2>/dev/null)" = "$3" ]; then
    echo "has $2"
elif [ "$part" ]; then
    touch -c "$part"
    echo "has $part/bin/python"
else
    for name in "python3.$4" python3 python3.14 python3.13 python3.12 python3.11; do
        found=$(command -v "$name") || continue
        if "$found" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "lacks $(uname -m) $found"
            exit 0
        fi
    done
    echo "old $(python3 -V 2>&1)"
fi
