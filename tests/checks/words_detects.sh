#!/bin/sh
# words_detects.sh ROOT: scripts/check-words names the file and the line of a phrase, wherever it stands and also over two
# lines, looks at "read" phrases only in what users read, and leaves out what words.json says.
set -eu
root=$1
copy=$(mktemp -d)
trap 'rm -rf "$copy" "$copy.expected"' EXIT
mkdir -p "$copy/src" "$copy/docs" "$copy/bench/results" "$copy/build"

count=0
expect() { # expect FILE LINE TEXT: the phrase is found there
    count=$((count + 1))
    printf '%b' "$3" >"$copy/$1"
    echo "$1:$2: " >>"$copy.expected"
}
spare() { # spare FILE TEXT: nothing is found there
    printf '%b' "$2" >"$copy/$1"
}
expect src/comment.c 2 '/*\n * Whoever waits runs it. */\n'
expect src/two_lines.c 1 '/* Served before those\n * who wait. */\n'
expect src/string.c 1 'const char *a = "it is read in "\n    "vain";\n'
expect src/read.c 2 'int a;\nconst char *b = "the caller is told";\n'
expect docs/read.md 4 'a\n\nThe caller\nis told.\n'
expect docs/read2.md 2 'a\nThe caller is told.\n'
expect src/count.h 1 '/* Takes so many slots. */\n'
spare src/apart.c 'const char *a = "they are told apart";\n'
spare src/comment_only.c '/* The core is told. */\n'
spare src/that.h '/* So many that it takes long. */\n'
spare src/name.c 'int anew_one, whoever_it_is;\n'
spare bench/results/run.txt 'whoever waits\n'
spare build/made.md 'whoever waits\n'

if said=$("$root/scripts/check-words" --root "$copy"); then
    echo "nothing of this is noticed: $(cat "$copy.expected")"
    exit 1
fi
while IFS= read -r place; do
    printf '%s\n' "$said" | grep "^$place" || { echo "not noticed: $place"; printf '%s\n' "$said"; exit 1; }
done <"$copy.expected"
printf '%s\n' "$said" | grep -qx "words: $count phrases" || { echo "not $count phrases: $said"; exit 1; }
rm "$copy/src/"* "$copy/docs/"*
"$root/scripts/check-words" --root "$copy" | grep -qx 'words: clean'
