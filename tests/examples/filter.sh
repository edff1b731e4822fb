#!/bin/sh
# filter.sh PROGRAM: it writes what tr would, of a text that passes its window several times, also when a device is lost.
set -eu
filter=$1
text=$(mktemp)
trap 'rm -f "$text" "$text.upper"' EXIT
awk 'BEGIN { for (i = 0; i < 150000; i++) printf "line %d of a text that goes by\n", i }' >"$text"
LC_ALL=C tr "[:lower:]" "[:upper:]" <"$text" >"$text.upper"
"$filter" <"$text" | cmp - "$text.upper"
MUSTER_SIM='[{"items_per_s":1e9,"faults":[{"kind":"lost","at_launch":9}]}]' "$filter" <"$text" | cmp - "$text.upper"
printf '' | "$filter" | cmp - /dev/null
if "$filter" <"$text" >/dev/full 2>/dev/null; then
    echo "the filter does not notice that nothing can be written"
    exit 1
fi
