# Makes the state directory of a grid and the parts of it that users share, as root's. Where users' first use came
# before, they are made root's now. It begins with what trusted.sh defines: what is above the directory, and where a
# link of root's in its place leads, is root's already. Arguments: the directory; the mount point that it lies on, or
# nothing; `make`, or `look` to change nothing; names of parts. Says one line for each thing: changed, refused, taken,
# foreign, untrusted or unmounted.
set -u
state=$1 mount=$2 order=$3
shift 3
say() { printf '%s\t%s\t%s\n' "$@"; }
# Go into a directory with a mode, which is made root's. By its own descriptor: its name may mean another one by now.
enter() {
    up=$(pwd -P)
    where=${up%/}/$1
    if [ -L "$1" ] || { [ -e "$1" ] && ! [ -d "$1" ]; }; then
        say foreign "$where" "it is no directory, and belongs to $(stat -c %U -- "$1")"
        return 1
    fi
    if ! [ -d "$1" ]; then
        say changed "$where" "none -> root, mode $2"
        [ "$order" = make ] || return 1
        mkdir -m 755 -- "$1" || { say refused "$where" "root may not make it: it may be nobody on the servers (root squash)"; return 1; }
    fi
    cd -P -- "./$1" || return 1
    [ "$(pwd -P)" = "$where" ] || { say foreign "$where" "it became a link meanwhile"; cd / && return 1; }
    now=$(stat -c '%u %a' .)
    [ "$now" = "0 $2" ] && return 0
    say changed "$where" "$(stat -c '%U, mode %a' .) -> root, mode $2"
    if [ "$order" = make ]; then
        { chown 0:0 . && chmod "$2" .; } 2>/dev/null || say refused "$where" "root may not take it: it may be nobody on the servers (root squash)"
    fi
}
if [ "$mount" ] && ! cut -d ' ' -f 2 /proc/self/mounts | grep -qxF -- "$mount"; then
    say unmounted "$mount" "the state directory lies on it, and is made once it is mounted"
    exit 0
fi
trusted_way "${state%/*}/" || exit 1
if [ -L "$state" ]; then
    trusted_way "$state" || exit 1
    state=$(readlink -f -- "$state") || exit 1
fi
parent=${state%/*}
[ "$order" = look ] || mkdir -p -- "${parent:-/}" || exit 1
cd -P -- "${parent:-/}" 2>/dev/null || { say changed "$state" "none -> root, mode 755"; exit 0; }
enter "${state##*/}" 755 || [ "$order" = look ] || exit 1
state=$(pwd -P)
for part in "$@"; do
    cd -P -- "$state" || exit 1
    enter "$part" 1777 || continue
    case $part in slurm | lsf | grid_engine | parts) ;; *) continue ;; esac
    # Who made the directory of another user can only keep that one out: each use looks at the owner.
    for each in * .[!.]*; do
        [ -e "$each" ] || [ -L "$each" ] || continue
        whose=$(stat -c '%U %u' -- "$each")
        case $each in
            "${whose% *}" | "${whose#* }") [ -L "$each" ] || continue ;;
        esac
        say taken "$state/$part/$each" "it belongs to ${whose% *}"
    done
done
