#!/bin/sh
# backend.sh COMMAND PROGRAM MODULE NAME: the command lists a device of the backend called NAME that MODULE brings, and
# PROGRAM (backend.c) works on it.
set -eu
export MUSTER_BACKENDS="$3"
listing=$("$1" devices)
printf '%s\n' "$listing"
printf '%s\n' "$listing" | grep -q "\\b$4:0"
"$2" "$4:0"
