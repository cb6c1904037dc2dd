# Prints `NAME VALUE` for each parameter that a pattern names, and `limit:NAME VALUE` where the pattern is followed by the
# name of a limit of the server; bounded, since a lost server can stop lctl. The MDT's own connections are no client's.
for each in "$@"; do
  pattern=${each%% *}
  limit=${each#"$pattern"}
  timeout 10 lctl get_param "$pattern" 2>/dev/null | grep -v -e '-osc-MDT' | while IFS='=' read -r name value; do
    echo "$name $value"
    [ -n "$limit" ] || continue
    timeout 10 lctl get_param -n "${name%.*}.import" 2>/dev/null </dev/null | sed -n "s/^ *${limit# }: */limit:$name /p"
  done
done
exit 0
