#!/bin/sh
# structs_detects.sh ROOT: scripts/check-structs names the header and the line of a struct that cannot grow.
set -eu
root=$1
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

fresh() {
    rm -rf "${copy:?}"/*
    mkdir -p "$copy/src/base"
    cp -r "$root/include" "$copy"
    cp "$root/src/base/layout.h" "$copy/src/base"
}
fail() {
    echo "$1"
    exit 1
}
expect_breach() { # expect_breach WORDS: in breach.h, whose text is on standard input
    fresh
    cat >"$copy/include/muster/breach.h"
    if said=$("$root/scripts/check-structs" --root "$copy"); then
        fail "not noticed: $1"
    fi
    printf '%s\n' "$said" | grep -q "^include/muster/breach.h:1: .*$1" || fail "noticed, but not as $1: $said"
    echo "noticed: $said"
}

fresh
"$root/scripts/check-structs" --root "$copy"
printf 'struct muster_new {\n    int number;\n};\n' | expect_breach "does not begin with its size"
printf 'struct muster_new {\n    int number;\n    size_t size;\n};\n' | expect_breach "does not begin with its size"
printf 'struct muster_new {\n    size_t size;\n    int number;\n};\n' | expect_breach "is not in LAYOUT_LIST"
printf 'struct muster_new {\n    size_t size;\n    struct muster_hints hints;\n};\n' | expect_breach "holds struct muster_hints"
printf 'struct muster_new {\n    size_t size;\n    struct muster_view views[4];\n};\n' | expect_breach "holds struct muster_view"
printf 'typedef struct {\n    uint64_t index;\n} muster_new;\n' | expect_breach "no handle"
fresh
sed -i '/^struct muster_edge {$/,/^};$/d' "$copy/include/muster/pipeline.h"
if said=$("$root/scripts/check-structs" --root "$copy"); then
    fail "not noticed: a struct that is listed and gone"
fi
printf '%s\n' "$said" | grep -q "struct muster_edge is listed, and in no header" || fail "$said"
