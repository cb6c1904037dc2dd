# Prints what a node has, in one go: memory and cores as /proc has them, then a line for each argument.
#   unit:NAME    `unit NAME LOAD ACTIVE` of systemd, where it runs
#   exists:NAME  `exists NAME` where it does
#   NAME/        `no directory NAME/` where there is none
#   PATTERN      `NAME VALUE` for each readable file; what is not there is left out
# cat, as the shell's own read takes single bytes, of which files below /proc/sys give only the first.
cat /proc/meminfo /proc/cpuinfo
for argument in "$@"; do
  case $argument in
    unit:*)
      [ -d /run/systemd/system ] || continue
      state=$(systemctl show --property=LoadState,ActiveState "${argument#unit:}" 2>/dev/null | cut -d= -f2)
      echo "unit ${argument#unit:} "$state
      continue
      ;;
    exists:*) [ ! -e "${argument#exists:}" ] || echo "exists ${argument#exists:}"; continue ;;
    */) [ -d "$argument" ] || echo "no directory $argument"; continue ;;
  esac
  for file in $argument; do
    [ -f "$file" ] && value=$(cat "$file" 2>/dev/null) && printf '%s %s\n' "$file" "$value"
  done
done
exit 0
