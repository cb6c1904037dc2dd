# Written by Gridwright. Starts begin.py with a Python of 3.9 or newer and with openssl, which it installs where
# an image lacks them. The unit runs it again where it fails.
set -u
root="${GRIDWRIGHT_ROOT:-}"
home="$root/var/lib/gridwright"
export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
begin() {
  command -v openssl > /dev/null || return
  for each in python3 python3.12 python3.11; do
    if "$each" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2> /dev/null; then
      exec "$each" "$home/begin.py"
    fi
  done
}
try() {
  echo "+ $*"
  timeout 1200 "$@"
}
# What a power cut left half installed is finished, once after each start.
if command -v apt-get > /dev/null && [ ! -e "$root/run/gridwright-packages" ]; then
  if [ -n "$(timeout 300 dpkg --audit 2> /dev/null)" ]; then
    try dpkg --force-confold --configure -a
    try apt-get -o DPkg::Lock::Timeout=300 -qq update
    try apt-get -o DPkg::Lock::Timeout=300 -qq -y -f install
  fi
  mkdir -p "$root/run"
  : > "$root/run/gridwright-packages"
fi
begin
if command -v apt-get > /dev/null; then
  try apt-get -o DPkg::Lock::Timeout=300 -qq update
  try apt-get -o DPkg::Lock::Timeout=300 -qq -y install python3 openssl
elif command -v dnf > /dev/null; then
  try dnf -y -q install openssl python3.11
fi
begin
reason="there is no Python 3.9 with openssl, and they cannot be installed: the lines above say why"
echo "FAILURE $reason"
(echo "gridwright: $reason" > "$root/dev/console") 2> /dev/null
exit 1
