# Whether those who may write a place, of a mode and an owner, are that owner alone: a group with no other members, of the
# owner's name and number, and no ACL; others_write in trusted.py. NFS 4 shows no ACL to ls(1).
trusted_group() {
    case $2 in ??[2367][0145]) ;; *) return 1 ;; esac
    who=$(stat -c '%U %G' -- "$1" 2>/dev/null) || return 1
    [ "${who% *}" = "${who#* }" ] && [ "$3" != 0 ] && [ "$(id -g "$3" 2>/dev/null)" = "$(stat -c %g -- "$1")" ] || return 1
    case $(getent group "${who#* }" | cut -d: -f4) in '' | "${who% *}") ;; *) return 1 ;; esac
    case $(stat -f -c %T -- "$1") in nfs*) return 1 ;; esac
    case $(ls -ld -- "$1") in ??????????[+]*) return 1 ;; esac
}
# Whether what lies in directories may be run: each is root's or this user's, and no other can write it (with `shared`,
# others may add to it where it is sticky, as /tmp is). A link is none. Says which is not, and whose it is.
trusted() (
    export LC_ALL=C
    how=$1
    shift
    for place in "$@"; do
        [ -e "$place" ] || [ -L "$place" ] || continue
        mode=$(stat -c '%u %04a %F' -- "$place" 2>/dev/null) || mode="? ? nothing"
        case $mode in
            "0 "*"symbolic link" | "$(id -u) "*"symbolic link") ;;
            "0 "?[0-7][0145][0145]" "* | "$(id -u) "?[0-7][0145][0145]" "*) continue ;;
            "0 1"*" directory" | "$(id -u) 1"*" directory") [ "$how" = shared ] && continue ;;
            "$(id -u) "*) bits=${mode#* } && trusted_group "$place" "${bits%% *}" "${mode%% *}" && continue ;;
        esac
        printf 'untrusted\t%s\t%s\n' "$place" "$(stat -c '%U, mode %a, %F' -- "$place" 2>/dev/null)"
        exit 1
    done
)
# Whether nobody but root and this user can put another thing where an absolute path leads: each directory from / on,
# and the way to the target of each link, as why_untrusted_path in trusted.py. What does not exist ends the walk.
trusted_way() (
    export LC_ALL=C
    me=$(id -u) rest=$1/ at='' closed='' links=0
    name=.
    while :; do
        place=$at/$name
        case $name in
            '') ;;
            ..) at=${at%/*} ;;
            *)
                mode=$(stat -c '%u %04a %F' -- "$place" 2>/dev/null) || { ! [ -e "$place" ] && ! [ -L "$place" ]; exit; }
                inside=
                case $closed in ?*) case $place in "$closed"/*) inside=$me ;; esac ;; esac
                case $mode in "$me "*) bits=${mode#* } && trusted_group "$place" "${bits%% *}" "$me" && inside=$me ;; esac
                case $mode in
                    "0 "*"symbolic link" | "$me "*"symbolic link")
                        links=$((links + 1))
                        [ $links -le 40 ] || { printf 'untrusted\t%s\tlinks without end\n' "$place"; exit 1; }
                        target=$(readlink -- "$place")
                        rest=$target/$rest
                        case $target in /*) at='' ;; esac
                        ;;
                    "0 "?[0-7][0145][0145]" directory" | "$me "?[0-7][0145][0145]" directory" | "0 1"*" directory" | "$me 1"*" directory" | "${inside:-none} "*" directory")
                        [ "$inside" ] || case $mode in "$me "??00" "*) closed=$place ;; esac
                        at=${place%/.}
                        ;;
                    *)
                        printf 'untrusted\t%s\t%s\n' "$place" "$(stat -c '%U, mode %a, %F' -- "$place" 2>/dev/null)"
                        exit 1
                        ;;
                esac
                ;;
        esac
        [ "$rest" ] || exit 0
        name=${rest%%/*} rest=${rest#*/}
    done
)
# The same of an environment of Python, of which the first directories are looked at. One that is not there is not run:
# another user could make it meanwhile.
trusted_environment() {
    [ -e "$1/bin/python" ] || { trusted own "$1"; return 1; }
    trusted_way "$1" && trusted own "$1" "$1/bin" "$1/lib" "$1"/lib/python3.* "$1"/lib/python3.*/site-packages "$1/pyvenv.cfg"
}
