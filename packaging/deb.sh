#!/bin/sh
# Builds a Debian package of a wheel: Gridwright in a virtual environment of its own in /usr/lib/gridwright, on the
# Python of this Debian release, with man page and completion where the system looks for them.
set -eu
export LC_ALL=C

usage="usage: packaging/deb.sh WHEEL DIRECTORY"
wheel=${1:?$usage}
out=${2:?$usage}
PYTHON=/usr/bin/python3
PIP="${PIP:-.venv/bin/python -m pip} --quiet --disable-pip-version-check"
HOME_OF_IT=/usr/lib/gridwright

if ! command -v dpkg-deb >/dev/null || ! "$PYTHON" -c 'import venv' 2>/dev/null; then
    echo "a Debian package is built on Debian 12 or newer, with dpkg-deb and python3-venv" >&2
    exit 1
fi
python_of() { "$PYTHON" -c "import sys; v = sys.version_info; print($1)"; }
version=$(basename "$wheel" | cut -d- -f2)
architecture=$(dpkg --print-architecture)
# pip takes the wheels that are made for the newest glibc up to this one.
glibc=$(getconf GNU_LIBC_VERSION | cut -d' ' -f2)
mkdir -p build
root=$(realpath build)/deb
rm -rf "$root"
install -d "$root/DEBIAN" "$root/usr/bin" "$root/usr/share/doc/gridwright" "$root/usr/share/zsh/vendor-completions"

"$PYTHON" -m venv --without-pip "$root$HOME_OF_IT"
into="$PIP --python $root$HOME_OF_IT/bin/python install --no-compile"
# Whole wheels alone: a package that had to be compiled here would bind it to what this machine has.
$into --only-binary :all: --no-binary ClusterShell --require-hashes -r requirements/run.lock
$into --no-index --no-deps "$wheel"

# What the wheel brings for the whole system goes where the system looks for it.
share=$root$HOME_OF_IT/share
install -d "$root/usr/share/man/man1" "$root/usr/share/bash-completion/completions" "$root/usr/share/fish/vendor_completions.d"
gzip -9nc "$share/man/man1/gridwright.1" >"$root/usr/share/man/man1/gridwright.1.gz"
mv "$share/bash-completion/completions/gridwright" "$root/usr/share/bash-completion/completions/"
mv "$share/zsh/site-functions/_gridwright" "$root/usr/share/zsh/vendor-completions/"
mv "$share/fish/vendor_completions.d/gridwright.fish" "$root/usr/share/fish/vendor_completions.d/"
rm "$share/man/man1/gridwright.1"
find "$root$HOME_OF_IT/share" -type d -empty -delete
cp README.md CHANGELOG.md "$root/usr/share/doc/gridwright/"
cp LICENSE "$root/usr/share/doc/gridwright/copyright"
cp -r examples "$root/usr/share/doc/gridwright/"
ln -s "../../..$HOME_OF_IT/share/doc/gridwright" "$root/usr/share/doc/gridwright/docs"

# The environment was made below $root, and is used without it.
grep -lI -- "$root" "$root$HOME_OF_IT"/bin/* "$root$HOME_OF_IT/pyvenv.cfg" | xargs -r sed -i "s|$root||g"
"$root$HOME_OF_IT/bin/python" -m compileall -q -j 0 -s "$root" -p / --invalidation-mode unchecked-hash \
    "$root$HOME_OF_IT"/lib >/dev/null || true # pieces of other packages that are no Python are left as they are
ln -s "$HOME_OF_IT/bin/gridwright" "$root/usr/bin/gridwright"
if grep -rlI -- "$root" "$root/usr" >&2; then
    echo "these files name the directory of this build" >&2
    exit 1
fi

cat >"$root/DEBIAN/control" <<END
Package: gridwright
Version: $version
Architecture: $architecture
Maintainer: The authors of Gridwright
Installed-Size: $(du -sk "$root/usr" | cut -f1)
Depends: python3 (>= $(python_of '"%d.%d" % v[:2]')), python3 (<< $(python_of '"%d.%d" % (v[0], v[1] + 1)')), libc6 (>= $glibc), libgomp1
Recommends: openssh-client
Suggests: bash-completion, man-db
Section: admin
Priority: optional
Description: plans, builds, tunes, proves and runs analytics grids
 Gridwright measures what the file systems of a grid give each core, runs a mixed analytics workload on it, and holds
 both against what is required. It plans, predicts, builds and tunes grids from one grid spec.
END
mkdir -p "$out"
dpkg-deb --root-owner-group -Zzstd -z9 --build "$root" "$out/gridwright_${version}_$architecture.deb"
