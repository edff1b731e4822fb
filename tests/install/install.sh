#!/bin/sh
# install.sh BUILD CMAKE CC: installs a build, moves it, and builds and runs a program from it in every way that is offered.
set -eu
build=$1
cmake=$2
cc=$3
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
strict="-std=c11 -Wall -Wextra -Wpedantic -Werror"

# Staged below DESTDIR, as a packager does; then used from where it lies, which is not the prefix it was made for.
DESTDIR=$work/stage "$cmake" --install "$build" --prefix /opt/muster >"$work/install.log"
mv "$work/stage/opt/muster" "$work/prefix"
prefix=$work/prefix
libdir=$(dirname "$(find "$prefix" -name libmuster.a)")

echo "-- what is there"
test -x "$prefix/bin/muster"
test -f "$prefix/include/muster/muster.h"
test -f "$prefix/include/muster_kernel.h"
test -L "$libdir/libmuster.so"
test -f "$libdir/libmuster.so.0.2"
"$prefix/bin/muster" version
# The client of NATS is found from where the tree was moved to; without it only what needs it fails.
if [ -f "$libdir/libmuster-cluster.so" ]; then
    wanted='no nats-server answers at nats://127.0.0.1:1:'
    test -f "$prefix/lib/systemd/system/muster-worker.service"
else
    wanted='many machines need libmuster-cluster.so'
fi
said=$(env -u MUSTER_CLUSTER_LIBRARY "$prefix/bin/muster" jobs --cluster nats://127.0.0.1:1 2>&1) && exit 1
case $said in *"$wanted"*) ;; *)
    echo "$said"
    exit 1
    ;;
esac

echo "-- each header alone, in C and in C++"
for header in "$prefix"/include/muster/*.h; do
    # Those for a vendor's types need the vendor's header.
    case $(basename "$header") in
    interop_cuda.h) vendor=cuda.h ;;
    interop_opencl.h) vendor=CL/cl.h ;;
    *) vendor=stddef.h ;;
    esac
    if ! echo "#include <$vendor>" | "$cc" -fsyntax-only -x c - 2>/dev/null; then
        echo "$(basename "$header"): not looked at, $vendor is not here"
        continue
    fi
    echo "#include <muster/$(basename "$header")>" >"$work/header.c"
    # shellcheck disable=SC2086 # a list of words
    "$cc" $strict -I"$prefix/include" -fsyntax-only "$work/header.c"
    if command -v c++ >/dev/null 2>&1; then
        c++ -std=c++11 -Wall -Wextra -Werror -I"$prefix/include" -fsyntax-only -x c++ "$work/header.c"
    fi
done

PKG_CONFIG_PATH=$libdir/pkgconfig
export PKG_CONFIG_PATH
echo "-- pkg-config $(pkg-config --modversion muster), shared"
# shellcheck disable=SC2046,SC2086 # lists of words
"$cc" $strict "$here/consumer/consumer.c" -o "$work/shared" $(pkg-config --cflags --libs muster)
LD_LIBRARY_PATH=$libdir "$work/shared"
readelf -d "$work/shared" | grep -q 'NEEDED.*libmuster.so.0.2'

echo "-- pkg-config, static"
# shellcheck disable=SC2046,SC2086 # lists of words
"$cc" $strict "$here/consumer/consumer.c" -o "$work/static" \
    $(pkg-config --static --cflags --libs muster | sed 's/-lmuster/-l:libmuster.a/')
"$work/static"

echo "-- the program of the README, as it says"
mkdir "$work/readme"
# The kernel is the first block of C, the program the second.
awk -v folder="$work/readme" '/^```/ { if (inside) inside = 0; else if ($0 == "```c") { inside = 1; count++ } next }
    inside && count <= 2 { print > (folder "/" (count == 1 ? "saxpy.c" : "first.c")) }' "$here/../../README.md"
# shellcheck disable=SC2046,SC2086 # lists of words
"$cc" $strict "$work/readme/first.c" -o "$work/readme/first" $(pkg-config --cflags --libs muster)
for sim in '' '[{"items_per_s":8e6,"faults":[{"kind":"lost","at_ms":1}]}]'; do
    printed=$(cd "$work/readme" && LD_LIBRARY_PATH=$libdir MUSTER_SIM=$sim MUSTER_CACHE='' ./first)
    echo "$printed"
    grep -q "It prints \`$printed\`" "$here/../../README.md"
done

echo "-- muster-helper is found from the library, in the layouts of installations"
helper=$(find "$prefix" -name muster-helper)
isolated() { # isolated LAYOUT LIBRARIES HELPER: the program of the README with the processor in a helper
    mkdir -p "$work/$1/$2" "$work/$1/$3"
    cp "$libdir/libmuster.so.0.2" "$work/$1/$2"
    cp "$helper" "$work/$1/$3"
    (cd "$work/readme" && LD_LIBRARY_PATH=$work/$1/$2 MUSTER_ISOLATE=cpu MUSTER_DEVICES=cpu MUSTER_CACHE='' ./first)
}
test "$(isolated plain lib libexec/muster)" = "$printed"
test "$(isolated multiarch lib/x86_64-linux-gnu libexec/muster)" = "$printed"
test "$(isolated debian lib/x86_64-linux-gnu lib/x86_64-linux-gnu/muster-0.2)" = "$printed"
if isolated nowhere lib elsewhere >"$work/said" 2>&1; then exit 1; fi
grep 'no muster-helper' "$work/said"

echo "-- examples, copied from where they are installed"
cp -r "$prefix/share/doc/muster/examples" "$work/examples"
"$cmake" -G Ninja -S "$work/examples" -B "$work/examples/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" \
    >"$work/configure.log" || {
    cat "$work/configure.log"
    exit 1
}
"$cmake" --build "$work/examples/build" --target example_08_kernel_file example_backend_inline
MUSTER_CACHE='' "$work/examples/build/08_kernel_file"
"$prefix/bin/muster" sim "$prefix/share/doc/muster/examples/scenarios/loss.json" >/dev/null

if command -v c++ >/dev/null 2>&1; then
    echo "-- the program of docs/cpp.md, as it says"
    strict_cpp="-std=c++17 -Wall -Wextra -pedantic -Wshadow -Werror"
    # The program is the first block of C++.
    awk '/^```/ { if (inside) exit; if ($0 == "```cpp") inside = 1; next } inside' "$here/../../docs/cpp.md" >"$work/readme/first.cpp"
    # shellcheck disable=SC2046,SC2086 # lists of words
    c++ $strict_cpp "$work/readme/first.cpp" -o "$work/readme/first_cpp" $(pkg-config --cflags --libs muster)
    printed=$(cd "$work/readme" && LD_LIBRARY_PATH=$libdir MUSTER_CACHE='' ./first_cpp)
    echo "$printed"
    grep -q "It prints \`$printed\`" "$here/../../docs/cpp.md"

    echo "-- muster.hpp after muster.h is refused with words, and needs C++17"
    printf '#include <muster/muster.h>\n#include <muster/muster.hpp>\n' >"$work/order.cpp"
    if c++ -std=c++17 -I"$prefix/include" -fsyntax-only "$work/order.cpp" 2>"$work/order.log"; then exit 1; fi
    grep -q 'error.*before the C headers' "$work/order.log"
    printf '#include <muster/muster.hpp>\n#include <muster/muster.h>\n' >"$work/order.cpp"
    c++ -std=c++17 -I"$prefix/include" -fsyntax-only "$work/order.cpp"
    if c++ -std=c++14 -I"$prefix/include" -fsyntax-only "$work/order.cpp" 2>"$work/order.log"; then exit 1; fi
    grep -q 'error.*needs C++17' "$work/order.log"
fi

if command -v python3 >/dev/null 2>&1 && /usr/bin/python3 -c 'import numpy, venv, ensurepip' 2>/dev/null; then
    echo "-- the program of docs/python.md, from the installed tree"
    # The program is the first block of Python.
    awk '/^```/ { if (inside) exit; if ($0 == "```python") inside = 1; next } inside' "$here/../../docs/python.md" >"$work/readme/first.py"
    printed=$(cd "$work/readme" && PYTHONPATH=$libdir/python3/dist-packages PYTHONDONTWRITEBYTECODE=1 MUSTER_CACHE='' /usr/bin/python3 first.py)
    echo "$printed"
    grep -q "It prints \`$printed\`" "$here/../../docs/python.md"

    echo "-- pip install, in a venv without a network"
    /usr/bin/python3 -m venv --system-site-packages "$work/venv"
    cp -r "$here/../../python" "$work/python"
    env PIP_NO_INDEX=1 PIP_DISABLE_PIP_VERSION_CHECK=1 "$work/venv/bin/pip" install -q "$work/python"
    printed=$(cd "$work/readme" && LD_LIBRARY_PATH=$libdir MUSTER_CACHE='' "$work/venv/bin/python" first.py)
    grep -q "It prints \`$printed\`" "$here/../../docs/python.md"
    if (cd "$work/readme" && "$work/venv/bin/python" first.py) 2>"$work/said"; then exit 1; fi
    grep -q 'LibraryError.*libmuster.so.0.2' "$work/said"
    test -f "$work"/venv/lib/python3*/site-packages/muster/py.typed

    echo "-- a wheel with the library in it"
    (cd "$work" && PYTHONPATH=python/backend /usr/bin/python3 -c "import muster_build
print(muster_build.build_wheel('.', {'library': '$libdir/libmuster.so'}))")
    printed=$(cd "$work/readme" && PYTHONPATH=$work/whole MUSTER_CACHE='' sh -c '
        /usr/bin/python3 -m zipfile -e ../muster-*-linux_*.whl ../whole && /usr/bin/python3 first.py')
    grep -q "It prints \`$printed\`" "$here/../../docs/python.md"
fi

echo "-- find_package"
"$cmake" -G Ninja -S "$here/consumer" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" \
    >"$work/configure.log" || {
    cat "$work/configure.log"
    exit 1
}
"$cmake" --build "$work/consumer"
"$work/consumer/consumer_muster"
"$work/consumer/consumer_static"
if command -v c++ >/dev/null 2>&1; then
    "$work/consumer/consumer_cpp_muster"
    "$work/consumer/consumer_cpp_static"
fi
