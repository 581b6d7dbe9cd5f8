#!/bin/sh
# Makes a manual page: docs/manual.sh SCDOC SOURCE >PAGE
#
# scdoc puts a paragraph macro around each heading and at each end of an indentation, where
# it means nothing; mandoc's linter is right to call these skipped. They are left out, and
# one that stands before the end of an indentation takes effect after it.
set -eu
page=$("$1" <"$2")
printf '%s\n' "$page" | awk '
    $1 == ".SH" || $1 == ".SS" { paragraph = 0; heading = 1; print; next }
    $1 == ".P" { if (!heading) paragraph = 1; next }
    $1 == ".RE" { print; next }
    { if (paragraph) print ".P"; paragraph = 0; heading = 0; print }
'
