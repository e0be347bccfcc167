#!/bin/sh
# Installs what lies beside this script below a prefix: install.sh --prefix DIR
#
# Every file is compared with MANIFEST first. Files are replaced by renaming, so that programs which run
# keep theirs. What an earlier installation had there, and this one has not, is removed.
set -eu

usage() {
    echo "usage: install.sh --prefix DIR" >&2
    exit 2
}

prefix=
while [ $# -gt 0 ]; do
    case $1 in
        --prefix) [ $# -ge 2 ] || usage; prefix=$2; shift 2 ;;
        --prefix=*) prefix=${1#--prefix=}; shift ;;
        *) usage ;;
    esac
done
case $prefix in
    '') usage ;;
    *:* | *'|'*) echo "install.sh: a prefix may have neither a colon nor a bar: $prefix" >&2; exit 1 ;;
esac
mkdir -p "$prefix"
prefix=$(cd "$prefix" && pwd)
cd "$(dirname "$0")"

command -v sha256sum > /dev/null || { echo "install.sh: sha256sum is not installed" >&2; exit 1; }
wrong=$(awk '$1 == "file" { print $2 "  " $5 }' MANIFEST | sha256sum -c - 2> /dev/null | grep -v ': OK$' || :)
if [ -n "$wrong" ]; then
    echo "install.sh: files here are not those of MANIFEST; unpack the archive again:" >&2
    echo "$wrong" >&2
    exit 1
fi

old=$prefix/lib/openmps/MANIFEST
if [ -f "$old" ]; then
    awk 'NR == FNR { new[$NF]; next } !($NF in new) { print $NF }' MANIFEST "$old" |
        while read -r path; do
            rm -f "$prefix/$path"
        done
fi

while read -r kind first second third fourth; do
    case $kind in
        file) path=$fourth ;;
        link) path=$second ;;
        *) echo "install.sh: a line of MANIFEST is not known: $kind" >&2; exit 1 ;;
    esac
    to=$prefix/$path
    mkdir -p "$(dirname "$to")"
    rm -f "$to.new-$$"
    case $kind:$path in
        link:*) ln -s "$first" "$to.new-$$" ;;
        *.service) sed "s|@PREFIX@|$prefix|g" "$path" > "$to.new-$$"; chmod "$third" "$to.new-$$" ;;
        *) cp "$path" "$to.new-$$"; chmod "$third" "$to.new-$$" ;;
    esac
    mv -f "$to.new-$$" "$to"
done < MANIFEST

cp MANIFEST "$old.new-$$"
mv -f "$old.new-$$" "$old"
echo "openmps is in $prefix; $prefix/lib/openmps/uninstall.sh removes it"
