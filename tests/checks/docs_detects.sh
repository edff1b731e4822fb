#!/bin/sh
# docs_detects.sh ROOT MUSTER: scripts/check-docs names each kind of mistake, with its place, and nothing that is right.
set -eu
root=$1 muster=$2
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir "$copy/examples"
cat >"$copy/good.md" <<'END'
# Some words, and `code`

[here](#some-words-and-code) and [there](bad.md#second), [code](good.md)

<!-- before: echo one > made -->
```
$ cat made
one
$ printf 'a\nb %s\nc\n' $$
a
b ...
c
$ printf 'a\nb\nc\n'
...
c
```
```sh
test -f made
muster partition --total 5 --devices 2 >/dev/null
```
<!-- not run: on purpose -->
```sh
exit 3
```
END
cat >"$copy/bad.md" <<'END'
# First
## Second
[a](none.md) and
[b](good.md#none)

```sh
muster nonsense
```
<!-- not run: the option alone counts -->
```sh
muster partition --total 5 --nonsense
```
```sh
exit 3
```
```
$ echo two
three
```
END
if said=$("$root/scripts/check-docs" --root "$copy" --muster "$muster"); then
    echo "nothing is noticed"
    exit 1
fi
printf '%s\n' "$said"
for place in "bad.md:3: the link none.md" "bad.md:4: the link good.md#none" "bad.md:7: there is no 'muster nonsense'" \
    "bad.md:11: 'muster partition' has no option --nonsense" "bad.md:13: exit status 3" "bad.md:16: 'echo two' prints"; do
    printf '%s\n' "$said" | grep -qF "$place" || { echo "not noticed: $place"; exit 1; }
done
if printf '%s\n' "$said" | grep '^good'; then exit 1; fi
