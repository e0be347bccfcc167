#!/bin/sh
# Removes the installation that this script is in: what its MANIFEST lists, and directories that are empty then.
set -eu

cd "$(dirname "$0")/../.."
manifest=lib/openmps/MANIFEST
if [ ! -f "$manifest" ]; then
    echo "uninstall.sh: there is no $(pwd)/$manifest, so what is to be removed is not known" >&2
    exit 1
fi
paths=$(awk '{ print $NF }' "$manifest")
for path in $paths $manifest; do
    rm -f "$path"
    directory=$(dirname "$path")
    while [ "$directory" != . ] && rmdir "$directory" 2> /dev/null; do
        directory=$(dirname "$directory")
    done
done
