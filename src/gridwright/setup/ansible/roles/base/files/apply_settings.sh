# Sets now what was written for the next start; the arguments say what of it.
status=0
for what in "$@"; do
  case $what in
    sysctl) sysctl --load=/etc/sysctl.d/60-gridwright.conf >/dev/null || status=1 ;;
    sysfs) systemd-tmpfiles --create /etc/tmpfiles.d/60-gridwright.conf || status=1 ;;
    disks)
      udevadm control --reload && udevadm trigger --subsystem-match=block --action=change &&
        udevadm settle --timeout=30 || status=1
      ;;
  esac
done
exit $status
