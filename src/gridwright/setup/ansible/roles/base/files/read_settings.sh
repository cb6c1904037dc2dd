# Prints what a node has, in one go: memory and cores as /proc has them, os-release(5), then of its arguments
#   unit:NAME    `units NAME...`, and LoadState and ActiveState of each as systemctl shows them, where systemd runs
#   exists:NAME  `exists NAME` where it does
#   NAME/        `no directory NAME/` where there is none
#   PATTERN      `NAME:VALUE` for each file that can be read; what is not there is left out
cat /proc/meminfo /proc/cpuinfo
sed 's/^/os-release /' /etc/os-release
units='' files=''
for argument in "$@"; do
  case $argument in
    unit:*) units="$units ${argument#unit:}" ;;
    exists:*) [ ! -e "${argument#exists:}" ] || echo "exists ${argument#exists:}" ;;
    */) [ -d "$argument" ] || echo "no directory $argument" ;;
    *) for file in $argument; do [ ! -f "$file" ] || files="$files $file"; done ;;
  esac
done
# One program for all files: a node of many cores has hundreds. /dev/null keeps grep from waiting for input.
grep --no-messages --with-filename '' $files /dev/null
if [ -d /run/systemd/system ]; then
  echo "units$units"
  systemctl show --property=LoadState,ActiveState $units
fi
exit 0
