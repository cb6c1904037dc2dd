# Whether those who may write a place, of a mode and an owner, are that owner alone: a group with no other members, of the
# owner's name and number, and no ACL; others_write in trusted.py. A directory service that does not list its users has to
# give each the group of its own number. NFS 4 shows no ACL to ls(1).
trusted_group() {
    case $2 in ??[2367][0145]) ;; *) return 1 ;; esac
    who=$(stat -c '%U %G' -- "$1" 2>/dev/null) || return 1
    [ "${who% *}" = "${who#* }" ] && [ "$3" != 0 ] && [ "$(id -g "$3" 2>/dev/null)" = "$(stat -c %g -- "$1")" ] || return 1
    group=$(id -g "$3")
    for members in $( { getent group "${who#* }"; getent group | grep "^[^:]*:[^:]*:$group:"; } | cut -d: -f4); do
        [ "$members" = "${who% *}" ] || return 1
    done
    getent passwd | {
        listed=
        while IFS=: read -r user _ _ primary _; do
            case $user in "${who% *}") listed=yes ;; *) [ "$primary" != "$group" ] || exit 1 ;; esac
        done
        [ "$listed" ] || [ "$3" = "$group" ]
    } || return 1
    case $(stat -f -c %T -- "$1") in nfs*) return 1 ;; esac
    case $(ls -ld -- "$1") in ??????????[+]*) return 1 ;; esac
}
# Minor numbers of FUSE file systems that other users than root and this one have mounted: what these say of owners and modes
# is those users' word; _fuse_user in trusted.py.
foreign_fuse() {
    while read -r _ _ device rest; do
        case $rest in *" - fuse "* | *" - fuse."*) ;; *) continue ;; esac
        case ,${rest##* }, in *,user_id=0,* | *",user_id=$(id -u),"*) ;; *) printf ' %s ' "${device#0:}" ;; esac
    done < /proc/self/mountinfo
}
# Whether a place is on one of these; says so.
on_foreign_fuse() {
    [ "$2" ] && device=$(stat -c %d -- "$1" 2>/dev/null) && [ $((device >> 8 & 4095)) = 0 ] || return 1
    case $2 in *" $((device & 255 | device >> 12 & ~255)) "*) ;; *) return 1 ;; esac
    printf 'untrusted\t%s\tanother user, who mounted it by FUSE\n' "$1"
}
# Whether what lies in directories may be run: each is root's or this user's, and no other can write it (with `shared`,
# others may add to it where it is sticky, as /tmp is). A link is none. Says which is not, and whose it is.
trusted() (
    export LC_ALL=C
    how=$1 fuse=$(foreign_fuse)
    shift
    for place in "$@"; do
        [ -e "$place" ] || [ -L "$place" ] || continue
        ! on_foreign_fuse "$place" "$fuse" || exit 1
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
    case $1 in /*) ;; *) printf 'untrusted\t%s\tnobody, since it is no absolute path\n' "$1"; exit 1 ;; esac
    me=$(id -u) fuse=$(foreign_fuse) rest=$1/ at='' closed='' links=0
    name=.
    while :; do
        place=$at/$name
        case $name in
            '') ;;
            ..) at=${at%/*} ;;
            *)
                mode=$(stat -c '%u %04a %F' -- "$place" 2>/dev/null) || { ! [ -e "$place" ] && ! [ -L "$place" ]; exit; }
                ! on_foreign_fuse "$place" "$fuse" || exit 1
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
    python=$(readlink -f -- "$1/bin/python") && trusted_way "${python%/*}" && trusted own "$python" || return 1
    trusted_way "$1" && trusted own "$1" "$1/bin" "$1/lib" "$1"/lib/python3.* "$1"/lib/python3.*/site-packages "$1/pyvenv.cfg"
}
