#!/bin/sh
# abi_detects.sh ROOT CC: scripts/abi notices what breaks programs, and what is new and not recorded, and nothing else.
set -eu
root=$1
cc=$2
command -v abidw >/dev/null 2>&1 || {
    echo "skipped: abidw is missing; fix: scripts/setup"
    exit 77
}
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir -p "$copy/include/muster" "$copy/src" "$copy/packaging"

fail() {
    echo "$1"
    exit 1
}
fresh() { # a library of two functions
    cat >"$copy/include/muster/small.h" <<'END'
#include <stddef.h>
struct muster;
enum muster_kind {
    MUSTER_KIND_ONE = 1
};
struct muster_small {
    size_t size;
    double first;
};
int muster_one(struct muster *m, const struct muster_small *small);
int muster_two(struct muster *m, int number, enum muster_kind kind);
END
    # Its name is that of the public header: only the folder tells them apart.
    printf 'struct muster {\n    int own;\n};\n' >"$copy/src/small.h"
    cat >"$copy/src/small.c" <<'END'
#include "small.h"
#include <muster/small.h>
int muster_one(struct muster *m, const struct muster_small *small) { return m->own + (int)small->first; }
int muster_two(struct muster *m, int number, enum muster_kind kind) { return m->own + number + (int)kind; }
END
}
small() { # small OPTION...: what scripts/abi says of it
    "$cc" -g -O1 -shared -fPIC -Wl,-soname,libmuster.so.0.2 -I "$copy/include" "$copy/src/small.c" -o "$copy/small.so"
    "$root/scripts/abi" --root "$copy" --library "$copy/small.so" "$@"
}
change() { # change FILE SED
    sed -i "$2" "$copy/$1"
}
expect() { # expect WORDS: scripts/abi fails and says them
    if said=$(small); then
        fail "not noticed: $1"
    fi
    case $said in *"$1"*) echo "noticed: $1" ;; *) fail "noticed, but not as $1: $said" ;; esac
    rm "$copy/small.so"
}
breaks="This breaks programs"

fresh
expect "no record for libmuster.so.0.2"
small --record
small

fresh
change src/small.h 's/int own;/char before[40]; int own;/'
small

fresh
change include/muster/small.h 's/double first;/double before, first;/'
expect "$breaks"
fresh
change include/muster/small.h 's/double first;/float first;/'
expect "$breaks"
fresh
change include/muster/small.h 's/double first;//'
change src/small.c 's/ + (int)small->first/ + (int)small->size/'
expect "$breaks"
fresh
change include/muster/small.h 's/int number/long number/'
change src/small.c 's/int number/long number/'
expect "$breaks"
fresh
change include/muster/small.h '/muster_two/d'
change src/small.c '/muster_two/d'
expect "$breaks"
fresh
change include/muster/small.h 's/size_t size;/size_t size; int small;/; s/double first;/int second;/'
change src/small.c 's/small->first/small->second/'
expect "$breaks"
fresh
change include/muster/small.h 's/KIND_ONE = 1/KIND_ONE = 2/'
expect "$breaks"
# A record is not made of what breaks programs.
small --record >/dev/null && fail "recorded what breaks programs"

fresh
change include/muster/small.h 's/double first;/double first; double last;/'
expect "this is not recorded"
small --record
small
echo 'int muster_three(struct muster *m) { return m->own; }' >>"$copy/src/small.c"
expect "this is not recorded"
small --record
small
