#!/bin/sh
# Makes sure that the Debian packages for a purpose are there: `install`, `test` or `vm`.
# Root installs what is missing; anybody else is told the exact command.
set -eu

purpose=${1:?usage: tools/debian-packages.sh install|test|vm}
missing=

need() { # need PACKAGE TEST...: the package is there if the test succeeds
    package=$1
    shift
    "$@" >/dev/null 2>&1 || missing="$missing $package"
}

python=${PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "Gridwright needs Python 3.11 or newer as $python: install it, or run make PYTHON=python3.12" >&2
    exit 1
fi
if ! command -v cargo >/dev/null; then
    echo "Gridwright needs Rust 1.85 or newer: install cargo (Debian 13: apt-get install cargo; else rustup)" >&2
    exit 1
fi

need python3-venv "$python" -c 'import ensurepip, venv'
need gcc command -v cc
if [ "$purpose" = test ]; then
    need chromium command -v chromium
    need bindfs command -v bindfs
    need btrfs-progs command -v mkfs.btrfs
    need e2fsprogs test -x /sbin/mkfs.ext4 -o -x /usr/sbin/mkfs.ext4
    need xfsprogs test -x /sbin/mkfs.xfs -o -x /usr/sbin/mkfs.xfs
    need mount command -v mount
    need locales test -e /usr/share/i18n/charmaps/ISO-8859-1.gz
    need python3-simgrid /usr/bin/python3 -c 'import simgrid'
    need iproute2 command -v ip
    need openssh-client command -v ssh
    need tcsh command -v tcsh
    need systemd command -v systemd-analyze
    need util-linux command -v setpriv
    need iputils-ping command -v ping
    need mandoc command -v mandoc
    need bash-completion test -f /usr/share/bash-completion/bash_completion
    need zsh command -v zsh
    # What systems of the Red Hat family are tried with.
    need dnf command -v dnf
    need python3-dnf /usr/bin/python3 -c 'import dnf'
    need rpm command -v rpmbuild
    need createrepo-c command -v createrepo_c
    need gnupg command -v gpg
    need policycoreutils-python-utils test -x /usr/sbin/semanage
    need selinux-policy-default test -d /etc/selinux/default/policy
    need packer command -v packer
    need fish command -v fish
    # The image of a lab's nodes is built by it; the lab tests run as root only.
    # So is the directory of users that some of them ask, a daemon of their own.
    if [ "$(id -u)" -eq 0 ]; then
        need debootstrap command -v debootstrap
        need iptables command -v iptables
        need slapd test -x /usr/sbin/slapd
    fi
fi

# Virtual machines: their kernels are those of Debian on x86_64, and they run as root only. Elsewhere `make test`
# skips their tests.
if [ "$purpose" = vm ] || { [ "$purpose" = test ] && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null &&
    [ "$(uname -m)" = x86_64 ]; }; then
    need user-mode-linux command -v linux.uml
    need qemu-system-x86 command -v qemu-system-x86_64
    need qemu-utils command -v qemu-img
    need debootstrap command -v debootstrap
    need e2fsprogs test -x /sbin/mkfs.ext4 -o -x /usr/sbin/mkfs.ext4
    need openssh-client command -v ssh-keygen
    need iproute2 command -v ip
    need systemd-container command -v systemd-nspawn
    need dnsmasq-base command -v dnsmasq
    need apt-utils command -v apt-ftparchive
    need nftables command -v nft
    # What the guest with Lustre is made with.
    need mmdebstrap command -v mmdebstrap
    need cpio command -v cpio
    need zstd command -v zstd
    need xz-utils command -v xz
    need kmod command -v depmod
fi

[ -n "$missing" ] || exit 0
if [ "$(id -u)" -ne 0 ]; then
    echo "Debian packages are missing. As root, run: apt-get install -y$missing" >&2
    exit 1
fi
if ! command -v apt-get >/dev/null; then
    echo "These are missing, and this is no Debian system: install what your system calls$missing" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
# shellcheck disable=SC2086
apt-get install -y -q --no-install-recommends $missing
# Debian starts it with the package; tests start one of their own.
case "$missing" in
*slapd*) systemctl disable --now slapd >/dev/null 2>&1 || true ;;
esac
