"""Small scripts in the place of Lustre's tools and of ip(8); volumes are files with real ext4.

WORLD names a directory that all machines share, MACHINE one of this machine. `kill` in the first has the next
mkfs.lustre end whoever called it.
"""

from __future__ import annotations

FAKES = {
    # The label is mkfs.lustre's own until the target is registered; what it writes last is a file beside.
    "mkfs.lustre": """
for each in "$@"; do case $each in
  --ost) kind=OST ;; --mdt) kind=MDT ;; --fsname=*) fsname=${each#*=} ;; --index=*) index=${each#*=} ;;
esac; device=$each; done
case $kind in MDT) features=dirdata, ;; esac
mke2fs -q -F -t ext4 -O "${features}quota" -L "$(printf '%s:%s%04x' "$fsname" "$kind" "$index")" "$device" \
  >"$MACHINE/mke2fs" 2>&1 || { echo 'mkfs.lustre FATAL: Unable to build fs'; cat "$MACHINE/mke2fs"; exit 1; }
case $fsname in trial) exit 0 ;; esac
echo "mkfs.lustre $*" >> "$WORLD/commands"; touch "$device.whole"
if [ -e "$WORLD/kill" ]; then rm "$WORLD/kill"; kill -9 $PPID; fi
""",
    # That of Lustre's own e2fsprogs, as far as the feature goes that stock ones do not know.
    "mke2fs": """
exec /usr/sbin/mke2fs $(echo "$*" | sed s/dirdata,//)
""",
    # What 2.17.0 says of a target whose format was cut off.
    "tunefs.lustre": """
for each in "$@"; do device=$each; done
case $device in *gridwright-trial-*) test -e "$WORLD/stock-libext2fs" || exit 0 ;; esac
test -e "$WORLD/broken" && { cat "$WORLD/broken"; exit 127; }
test -e "$device.whole" && exit 0
echo "tunefs.lustre FATAL: Device $device has not been formatted with mkfs.lustre" >&2
echo "checking for existing Lustre data: not found"
exit 19
""",
    "mount.lustre": "exit 1",
    "mount": """
echo "mount $*" >> "$WORLD/commands"
label=$(e2label "$3") || exit 1
e2label "$3" "$(echo "$label" | tr : -)" && echo "$3 $4 lustre rw 0 0" >> "$MACHINE/mounts"
""",
    "lctl": """
case $1 in
  list_nids) cat "$MACHINE/nids" 2>/dev/null ;;
  network) echo "$(cat "$MACHINE/address")@tcp" > "$MACHINE/nids" ;;
esac
exit 0
""",
    "modprobe": "exit 0",
    "nmcli": "exit 0",
    "ip": """
echo "ip $*" >> "$WORLD/commands"
case "$*" in
  *"address show"*) test ! -e "$MACHINE/address" || echo "3: ens6 inet $(cat "$MACHINE/address")/32 scope" ;;
  *"address replace "*) echo "$4" | cut -d/ -f1 > "$MACHINE/address" ;;
  *"rule show"*) test ! -e "$MACHINE/rule" || cat "$MACHINE/rule" ;;
  *"rule add "*) echo "7001: from $5 lookup 7001" > "$MACHINE/rule" ;;
esac
exit 0
""",
}
