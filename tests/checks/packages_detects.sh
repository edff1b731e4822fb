#!/bin/sh
# packages_detects.sh ROOT BUILD: scripts/check-packages names what does not fit.
set -eu
root=$1
build=$2
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

fail() {
    echo "$1"
    exit 1
}
# What a case changes is copied, the rest is the tree's own.
mkdir -p "$copy/tree/scripts"
cp "$root/scripts/spdx" "$copy/tree/scripts"
for folder in packaging include cli jobs helper python docs examples; do
    ln -s "$root/$folder" "$copy/tree/$folder"
done
cp -r "$root/debian" "$root/src" "$copy/tree"
fresh() {
    cp "$root"/debian/*.* "$root/debian/changelog" "$copy/tree/debian"
    cp "$root/src/muster.map" "$copy/tree/src"
    cp "$root/src/base/text.h" "$copy/tree/src/base"
}
expect() { # expect WORDS OPTION...
    wanted=$1
    shift
    if said=$("$root/scripts/check-packages" --root "$copy/tree" "$@"); then
        fail "not noticed: $wanted"
    fi
    case $said in *"$wanted"*) echo "noticed: $said" ;; *) fail "noticed, but not as $wanted: $said" ;; esac
}

fresh
"$root/scripts/check-packages" --root "$copy/tree"
sed -i '1s/(0[^-]*/(7.0.0/' "$copy/tree/debian/changelog"
expect "version 7.0.0-"
fresh
sed -i 's/^    muster_open;/    muster_open;\n    muster_new;/' "$copy/tree/src/muster.map"
expect "muster_new is exported and not listed"
fresh
sed -i 's/^ muster_open@.*/&\n muster_gone@MUSTER_0.2 0.2.0/' "$copy/tree/debian/libmuster0.2.symbols"
expect "muster_gone is listed and not exported"
fresh
echo '#define LIBRARY "libnew.so.1"' >>"$copy/tree/src/base/text.h"
expect "packaging/muster.spdx.json is not what the tree is made of"
fresh
echo '/* See docs/nowhere.md. */' >>"$copy/tree/src/base/text.h"
expect "src/base/text.h: names docs/nowhere.md, which is not in the tree"
fresh
sed -i '/completions/d' "$copy/tree/debian/muster.install"
expect "usr/share/bash-completion/completions/muster: installed, and in the list of no package" --build "$build"
fresh
echo usr/bin/muster >>"$copy/tree/debian/libmuster-dev.install"
expect "usr/bin/muster: installed, and in the list of libmuster-dev, muster" --build "$build"
fresh
echo usr/bin/munster >>"$copy/tree/debian/muster.install"
expect "debian/muster.install: usr/bin/munster is not installed" --build "$build"
