#!/bin/sh
# symbols_detects.sh ROOT: scripts/check-symbols notices a function that is missing in the map, and one too many.
set -eu
root=$1
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir "$copy/src"
cp -r "$root/include" "$copy"

expect() { # expect TEXT: the check fails and says so
    if said=$("$root/scripts/check-symbols" --root "$copy"); then
        echo "not noticed: $1"
        exit 1
    fi
    printf '%s\n' "$said" | grep -q "$1" || {
        echo "expected \"$1\": $said"
        exit 1
    }
}

grep -v 'muster_open;' "$root/src/muster.map" >"$copy/src/muster.map"
expect 'muster_open is missing'
sed 's/muster_open;/muster_open; muster_secret;/' "$root/src/muster.map" >"$copy/src/muster.map"
expect 'muster_secret is not public'
