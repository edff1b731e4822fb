#!/bin/sh
# layers_detects.sh ROOT: scripts/check-layers names the file and the line of an include that breaks the layers.
set -eu
root=$1
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

fresh() {
    rm -rf "$copy/src" "$copy/include" "$copy/cli" "$copy/jobs"
    cp -r "$root/src" "$root/include" "$root/cli" "$root/jobs" "$copy"
}
fail() {
    echo "$1"
    exit 1
}
expect_kept() {
    said=$("$root/scripts/check-layers" --root "$copy") || fail "the tree as it is: $said"
}
expect_breach() { # expect_breach FILE LINE TEXT: with TEXT as that line of the file
    fresh
    mkdir -p "$(dirname "$copy/$1")"
    printf '/* first */\n%s\n' "$3" >"$copy/$1"
    if said=$("$root/scripts/check-layers" --root "$copy"); then
        fail "not noticed: $1: $3"
    fi
    printf '%s\n' "$said" | grep -q "^$1:$2: " || fail "noticed, but not as $1:$2: $said"
    echo "noticed: $(printf '%s\n' "$said" | grep "^$1:$2: ")"
}

fresh
expect_kept
expect_breach src/core/breach.c 2 '#include "platform/thread.h"'
expect_breach src/core/breach.c 2 '#include <pthread.h>'
expect_breach src/core/breach.c 2 '#  include <stdio.h>'
expect_breach src/base/breach.h 2 '#include "core/plan.h"'
expect_breach src/model/breach.c 2 '#include <time.h>'
expect_breach src/platform/breach.c 2 '#include "core/plan.h"'
expect_breach src/backend/breach.c 2 '#include "core/plan.h"'
expect_breach src/backend/cpu/breach.c 2 '#include "run/runtime.h"'
expect_breach src/run/breach.c 2 '#include <CL/cl.h>'
expect_breach src/run/breach.c 2 '#include "runtime.h"'
expect_breach include/muster/breach.h 2 '#include <cuda.h>'
expect_breach cli/breach.c 2 '#include "base/ring.h"'
expect_breach jobs/breach.c 2 '#include "base/ring.h"'
expect_breach jobs/breach.c 2 '#include "option.h"'
expect_breach src/elsewhere/breach.c 1 'int breach;'

# The build may not allow more than the table either.
fresh
echo 'muster_folder(core USES base platform)' >"$copy/src/core/CMakeLists.txt"
if "$root/scripts/check-layers" --root "$copy" >/dev/null; then
    fail "not noticed: core links platform"
fi
