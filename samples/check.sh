#!/usr/bin/env bash
# Runs the sample programs on the CUDA device that the library path leads to and compares their
# checksums with `expected.tsv`, which comes from real hardware; then the tour of the driver API and
# all kinds of fault.
#
#   samples/check.sh DIR [large]     DIR holds the built programs (target/debug, for example)
#
# Prints a line for each run; the status is 0 if all is as it must be. With `large` also the runs that are too much for
# a software GPU.
set -uo pipefail

programs="${1:?the folder with the built sample programs}"
large="${2:-}"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
# Longest that a run may take, in seconds.
limit_s="${LIMIT_S:-120}"
failed=0

say() { # name, status: 0 if right
    if [ "$2" -eq 0 ]; then echo "ok $1"; else echo "FAIL $1 (status $2)"; failed=$((failed + 1)); fi
}

while IFS=$'\t' read -r kind command expected; do
    case "$kind" in
    small) ;;
    large) [ "$large" = large ] || continue ;;
    *) continue ;;
    esac
    # shellcheck disable=SC2086 # the words of a command line
    output="$(timeout -k 5 "$limit_s" "$programs"/$command --iterations 5 --warm-up 1)"
    status=$?
    got="$(sed -n 's/^checksum //p' <<<"$output")"
    if [ "$status" -eq 0 ] && [ "$got" != "$expected" ]; then
        echo "$command: checksum $got, expected $expected" >&2
        status=1
    fi
    say "$command" "$status"
done <"$here/expected.tsv"

timeout -k 5 "$limit_s" "$programs/api_tour" | grep -v '^ok'
say api_tour "${PIPESTATUS[0]}"
for kind in null-write null-read stray-write misaligned trap; do
    timeout -k 5 "$limit_s" "$programs/fault" --kind "$kind" >/dev/null
    say "fault --kind $kind" $?
done

echo "$failed failed"
[ "$failed" -eq 0 ]
