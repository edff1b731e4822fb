#!/bin/sh
# warnings.sh COMPILER...: all headers and the tests of this folder compile without a warning in C++17 and C++20, by each
# compiler that is installed; and headers.cpp names every macro and every struct that the headers have.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
include=$here/../../include
failed=0

# shellcheck disable=SC2013 # names are words
for name in $(sed -n 's/^ *#define \(MUSTER_[A-Z0-9_]*\).*/\1/p' "$include"/muster/*.h | sort -u); do
    case $name in
    # Guards of headers, and what a header uses for itself.
    MUSTER_*_H | MUSTER_STATUS_ENUM | MUSTER_ELEMENT_AT | MUSTER_BACKEND_LINKAGE | MUSTER_SAME_NAMES_*) continue ;;
    esac
    grep -qw "$name" "$here/headers.cpp" || { echo "headers.cpp does not use the macro $name"; failed=1; }
done
# shellcheck disable=SC2013 # names are words
for name in $(sed -n 's/^struct \(muster_[a-z_]*\) {$/\1/p' "$include"/muster/*.h | sort -u); do
    grep -qw "$name" "$here/headers.cpp" || { echo "headers.cpp does not make a struct $name"; failed=1; }
done

looked=
for compiler in "$@"; do
    command -v "$compiler" >/dev/null 2>&1 || continue
    # One compiler may have several names.
    path=$(readlink -f "$(command -v "$compiler")")
    case " $looked " in *" $path "*) continue ;; esac
    looked="$looked $path"
    for standard in c++17 c++20; do
        for source in "$here"/*.cpp "$here"/../../examples/*.cpp; do
            test -f "$source" || continue
            "$compiler" -std=$standard -Wall -Wextra -pedantic -Wshadow -Wconversion -Werror -DKERNELS='""' -I"$include" \
                -fsyntax-only "$source" || { echo "$compiler -std=$standard: $source"; failed=1; }
        done
    done
    echo "$compiler: looked at"
done
test -n "$looked"
exit $failed
