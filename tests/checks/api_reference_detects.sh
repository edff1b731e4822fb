#!/bin/sh
# api_reference_detects.sh ROOT: scripts/api-reference --check notices a header that has changed, a page that was edited and one that
# belongs to no header; all public functions have a heading or an anchor of their own.
set -eu
root=$1
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
fresh() {
    rm -rf "$copy/include" "$copy/docs"
    mkdir -p "$copy/docs"
    cp -r "$root/include" "$copy"
    cp -r "$root/docs/api" "$copy/docs"
}
stale() { # stale PAGE
    if said=$("$root/scripts/api-reference" --root "$copy" --check); then
        echo "not noticed: $1"
        exit 1
    fi
    printf '%s\n' "$said" | grep "^docs/api/$1 is out of date"
}
fresh
"$root/scripts/api-reference" --root "$copy" --check
sed -i 's/^MUSTER_API muster_status muster_open(/MUSTER_API muster_status muster_opened(/' "$copy/include/muster/runtime.h"
stale runtime.md
fresh
echo more >>"$copy/docs/api/job.md"
stale job.md
fresh
echo old >"$copy/docs/api/gone.md"
stale gone.md
"$root/scripts/api-reference" --root "$copy"
test ! -e "$copy/docs/api/gone.md"

# Each function of the export list is on a page.
sed -n 's/^    \(muster_[a-z0-9_]*\);$/\1/p' "$root/src/muster.map" >"$copy/names"
while IFS= read -r name; do
    grep -qE "^## $name\$|<a id=\"$name\">" "$root"/docs/api/*.md || { echo "no page has $name"; exit 1; }
done <"$copy/names"
