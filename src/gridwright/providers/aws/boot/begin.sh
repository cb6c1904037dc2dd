# Written by Gridwright. Starts fetch.py with a Python that has boto3, which it installs where there is none.
# The unit runs it again where it fails. A build of an image names another program, and its own lock file.
set -u
root="${GRIDWRIGHT_ROOT:-}"
home="$root/var/lib/gridwright"
program="${1:-$home/fetch.py}"
lock="${2:-$home/boto3.lock}"
own="$root/usr/local/lib/gridwright/python"
export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
fits() {
  "$1" -c 'import sys, boto3; sys.exit(sys.version_info < (3, 9))' 2>/dev/null
}
begin() {
  for each in "$own/bin/python3" python3; do
    if fits "$each"; then
      exec "$each" "$program"
    fi
  done
}
try() {
  echo "+ $*"
  timeout 1200 "$@"
}
from_pypi() {
  for each in python3.12 python3.11; do
    command -v "$each" > /dev/null || try dnf -y -q install "$each" "$each-pip" || continue
    mkdir -p "${own%/*}"
    try "$each" -m venv --clear "$own" || continue
    try "$own/bin/python3" -m pip install --disable-pip-version-check --no-input --quiet \
      --retries 5 --timeout 30 --require-hashes --only-binary :all: -r "$lock" && return
  done
}
# What a power cut left half installed is finished, once after each start: it may be boto3 itself.
mend() {
  if [ -n "$(timeout 300 dpkg --audit 2> /dev/null)" ]; then
    try dpkg --force-confold --configure -a
    try apt-get -o DPkg::Lock::Timeout=300 -qq update
    try apt-get -o DPkg::Lock::Timeout=300 -qq -y -f install
  fi
  mkdir -p "$root/run"
  : > "$root/run/gridwright-packages"
}
if command -v apt-get > /dev/null && [ ! -e "$root/run/gridwright-packages" ]; then
  mend
fi
begin
if command -v apt-get > /dev/null; then
  try apt-get -o DPkg::Lock::Timeout=300 -qq update
  try apt-get -o DPkg::Lock::Timeout=300 -qq -y install python3-boto3
elif command -v dnf > /dev/null; then
  # The distribution's own, where there is one, is for another Python or needs EPEL.
  from_pypi
fi
begin
reason="there is no Python with boto3, and it cannot be installed: the lines above say why"
echo "FAILURE $reason"
(echo "gridwright: $reason" > "$root/dev/console") 2> /dev/null
exit 1
