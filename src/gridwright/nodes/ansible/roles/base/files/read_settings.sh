# Prints `path value` for each readable file that the patterns name; what is not there is left out. Of a name that ends
# with a slash it prints `no directory NAME` where there is none.
# cat, as the shell's own read takes single bytes, of which files below /proc/sys give only the first.
for pattern in "$@"; do
  case $pattern in
    */) [ -d "$pattern" ] || echo "no directory $pattern"; continue ;;
  esac
  for file in $pattern; do
    [ -f "$file" ] && value=$(cat "$file" 2>/dev/null) && printf '%s %s\n' "$file" "$value"
  done
done
exit 0
