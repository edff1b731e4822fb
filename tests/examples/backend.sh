#!/bin/sh
# backend.sh COMMAND MODULE NAME: the command lists a device of the backend called NAME that MODULE brings.
set -eu
listing=$(MUSTER_BACKENDS=$2 "$1" devices)
printf '%s\n' "$listing"
printf '%s\n' "$listing" | grep -q "\\b$3:0"
