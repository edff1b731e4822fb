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
count=0
expect_breach() { # expect_breach FILE LINE TEXT: with TEXT as line 2 of the file, which gets a number
    count=$((count + 1))
    file=${1%.*}_$count.${1##*.}
    mkdir -p "$(dirname "$copy/$file")"
    printf '/* first */\n%s\n' "$3" >"$copy/$file"
    echo "$file:$2: " >>"$copy/expected"
}
expect_breaches() {
    if said=$("$root/scripts/check-layers" --root "$copy"); then
        fail "nothing of this is noticed: $(cat "$copy/expected")"
    fi
    while IFS= read -r place; do
        printf '%s\n' "$said" | grep "^$place" || fail "not noticed: $place"
    done <"$copy/expected"
    printf '%s\n' "$said" | grep -qx "layers: $count breaches" || fail "not $count breaches: $said"
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
expect_breach src/backend/cpu/breach.c 2 '#include "run/base/runtime.h"'
expect_breach src/run/breach.c 2 '#include <CL/cl.h>'
expect_breach src/run/breach.c 2 '#include "runtime.h"'
expect_breach include/muster/breach.h 2 '#include <cuda.h>'
expect_breach cli/breach.c 2 '#include "base/ring.h"'
expect_breach jobs/breach.c 2 '#include "base/ring.h"'
expect_breach jobs/breach.c 2 '#include "option.h"'
expect_breach src/elsewhere/breach.c 1 'int breach;'
# Rooms of run: nothing of a room above, of one beside it, of what is above all rooms, or of a folder that is not the room's.
expect_breach src/run/base/breach.h 2 '#include "run/device/device.h"'
expect_breach src/run/device/breach.c 2 '#include "run/memory/memory.h"'
expect_breach src/run/memory/breach.h 2 '#include "run/place/place.h"'
expect_breach src/run/place/breach.c 2 '#include "run/job/jobs.h"'
expect_breach src/run/task/breach.c 2 '#include "run/job/jobs.h"'
expect_breach src/run/job/breach.c 2 '#include "run/task/tasks.h"'
expect_breach src/run/device/breach.c 2 '#include "run/trace.h"'
expect_breach src/run/place/breach.c 2 '#include "kernel/compile.h"'
expect_breach src/run/attic/breach.c 1 'int breach;'
expect_breach src/run/breach.c 2 '#include "run/attic/attic.h"'
expect_breaches

# The build may not allow more than the table either.
fresh
echo 'muster_folder(core USES base platform)' >"$copy/src/core/CMakeLists.txt"
if "$root/scripts/check-layers" --root "$copy" >/dev/null; then
    fail "not noticed: core links platform"
fi
fresh
sed 's,muster_folder(run/device USES,& run/memory,' "$root/src/run/CMakeLists.txt" >"$copy/src/run/CMakeLists.txt"
if "$root/scripts/check-layers" --root "$copy" >/dev/null; then
    fail "not noticed: run/device links run/memory"
fi

# Nor may a room call what it has no header of.
fresh
mkdir -p "$copy/built/run"
cd "$copy/built"
echo 'int upstairs(void) { return 1; }' >upstairs.c
echo 'int upstairs(void); int downstairs(void) { return upstairs(); }' >downstairs.c
"${CC:-cc}" -c upstairs.c downstairs.c
archive() { # archive ROOM OF THE CALLED, ROOM OF THE CALLER
    rm -f run/*.a
    ar rc "run/libmuster_run_$1.a" upstairs.o
    ar rc "run/libmuster_run_$2.a" downstairs.o
}
archive device memory
"$root/scripts/check-layers" --root "$copy" --objects . >/dev/null || fail "memory may call device"
archive memory device
if said=$("$root/scripts/check-layers" --root "$copy" --objects .); then
    fail "not noticed: device calls memory"
fi
echo "noticed: $(printf '%s\n' "$said" | grep 'needs upstairs of run/memory')"
