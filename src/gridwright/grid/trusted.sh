# Whether what lies in directories may be run: each is root's or this user's, and no other can write it (with `shared`,
# others may add to it where it is sticky, as /tmp is). A link is none. Says which is not, and whose it is.
trusted() (
    how=$1
    shift
    for place in "$@"; do
        [ -e "$place" ] || [ -L "$place" ] || continue
        mode=$(stat -c '%u %04a %F' -- "$place" 2>/dev/null) || mode="? ? nothing"
        case $mode in
            "0 "*"symbolic link" | "$(id -u) "*"symbolic link") ;;
            "0 "?[0-7][0145][0145]" "* | "$(id -u) "?[0-7][0145][0145]" "*) continue ;;
            "0 1"*" directory" | "$(id -u) 1"*" directory") [ "$how" = shared ] && continue ;;
        esac
        printf 'untrusted\t%s\t%s\n' "$place" "$(stat -c '%U, mode %a, %F' -- "$place" 2>/dev/null)"
        exit 1
    done
)
# The same of an environment of Python, of which the first directories are looked at.
trusted_environment() {
    trusted own "$1" "$1/bin" "$1/lib" "$1"/lib/python3.* "$1"/lib/python3.*/site-packages "$1/pyvenv.cfg"
}
