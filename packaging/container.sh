#!/bin/sh
# Builds the image of packaging/Containerfile out of the Debian package in a directory, by the first builder that
# is there: podman, docker or buildah. BUILDER names another, such as "buildah --storage-driver vfs"; BASE another
# image to start from.
set -eu

packages=${1:?usage: packaging/container.sh DIRECTORY}
works() { command -v "$1" >/dev/null && "$1" info >/dev/null 2>&1; }

builder=${BUILDER:-}
for each in podman docker buildah; do
    [ -n "$builder" ] || { works "$each" && builder=$each; } || true
done
if [ -z "$builder" ]; then
    echo "no builder of containers works here: install podman, docker or buildah, and start what it needs" >&2
    exit 1
fi
# The package is for the Debian release that it was built on.
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
BASE=${BASE:-docker.io/library/debian:$release-slim}
version=$(basename "$packages"/gridwright_*.deb | cut -d_ -f2)
# shellcheck disable=SC2086
$builder build --build-arg "BASE=$BASE" --tag "gridwright:$version" --tag gridwright:latest \
    --file packaging/Containerfile "$packages"
