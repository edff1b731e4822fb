#!/bin/sh
# grown.sh BUILD CMAKE CC: a library whose public structs have all grown by a member runs programs that know nothing of it,
# and the library of BUILD runs programs that were built against the grown headers. Both ways with the examples.
set -eu
build=$1
cmake=$2
cc=$3
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

echo "-- headers whose structs have grown"
mkdir "$work/grown"
cp -r "$root/include" "$root/src" "$root/cmake" "$root/cli" "$root/jobs" "$root/docs" "$root/CMakeLists.txt" \
    "$root/muster.pc.in" "$work/grown"
mkdir "$work/grown/examples"
echo >"$work/grown/examples/CMakeLists.txt"
sed -n 's/^    X(\([a-z_]*\), .*/\1/p' "$root/src/base/layout.h" | while read -r struct; do
    sed -i "/^struct $struct {\$/,/^};\$/s/^};\$/    uint64_t later[2];\n};/" "$work"/grown/include/muster/*.h
    grep -q "^struct $struct {" "$work"/grown/include/muster/*.h
done
test "$(cat "$work"/grown/include/muster/*.h | grep -c 'uint64_t later\[2\];')" -gt 30
# Events are of another size, on purpose.
sed -i '/_Static_assert(sizeof(struct recorded) == 128/d' "$work/grown/src/observe/recording.c"

echo "-- a library of them"
"$cmake" -G Ninja -S "$work/grown" -B "$work/grown/build" -DMUSTER_TESTS=OFF -DCMAKE_BUILD_TYPE=Debug \
    -DCMAKE_C_COMPILER="$cc" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
"$cmake" --build "$work/grown/build" --target libmuster.so >"$work/log" 2>&1 || { tail -n 50 "$work/log"; exit 1; }

run() { # run PROGRAM LIBRARIES: an example, in a folder where its kernels are
    (cd "$root/examples" && LD_LIBRARY_PATH=$2 MUSTER_DEVICES='' MUSTER_SIM='[{"items_per_s":1e6,"slices":true,"cores":8}]' \
        MUSTER_CACHE='' timeout 60 "$1" >"$work/out" 2>&1) ||
        { echo "failed: $1 with $2"; cat "$work/out"; exit 1; }
}
count=0
for source in "$root"/examples/[0-9]*.c; do
    name=$(basename "$source" .c)
    # One reads standard input, one needs another library.
    case $name in *_filter | *_late_size) continue ;; esac
    "$cc" -std=c11 -D_GNU_SOURCE -DKERNELS="\"$root/examples/kernels\"" -I"$root/include" "$source" -o "$work/present" -L"$build" -lmuster -lm
    "$cc" -std=c11 -D_GNU_SOURCE -DKERNELS="\"$root/examples/kernels\"" -I"$work/grown/include" "$source" -o "$work/newer" -L"$build" -lmuster -lm
    run "$work/present" "$build"
    run "$work/present" "$work/grown/build"
    run "$work/newer" "$build"
    run "$work/newer" "$work/grown/build"
    count=$((count + 1))
done
test "$count" -gt 10
echo "$count programs run with libraries of both sizes"
