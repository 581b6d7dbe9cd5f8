#!/bin/sh
# test_examples.sh SOURCE EXAMPLES MONITOR - the examples do what they are there to show, and
# the one that README.md and the manual page have is the one that is built.
set -u
source=$1
examples=$2
SBX_MONITOR=$3
export SBX_MONITOR
scratch=$(mktemp -d "${TMPDIR:-/tmp}/sbx-examples.XXXXXX") || exit 1
trap 'rm -rf -- "$scratch"' EXIT
status=0

fail() {
    echo "$*"
    status=1
}

# expect STATUS NAME ARGUMENT...: runs the example; its output is in $scratch/output.
expect() {
    wanted=$1
    shift
    program=$examples/$1
    shift
    "$program" "$@" >"$scratch/output" 2>"$scratch/errors" </dev/null
    got=$?
    if [ "$got" -ne "$wanted" ]; then
        fail "$program $*: status $got where $wanted was expected"
        cat -- "$scratch/output" "$scratch/errors"
    fi
}

# says PATTERN: a line of the output is like that.
says() {
    if ! grep -q -- "$1" "$scratch/output"; then
        fail "no line like '$1' in:"
        cat -- "$scratch/output" "$scratch/errors"
    fi
}

expect 7 run sh -c 'exit 7'
says '^exited, status 7$'
says '^{"schema":"sbx.report/1",.*"exit_code":7,'
expect 127 run /nonexistent/command
says '^launch-failed, status 127$'
expect 125 run
grep -q '^run: no command given$' "$scratch/errors" || fail "a missing command is not told"
SBX_MONITOR=/nonexistent/monitor expect 125 run true
SBX_MONITOR=$3
grep -q '^run: sbx-monitor cannot be started: /nonexistent/monitor: ' "$scratch/errors" ||
    fail "a missing sbx-monitor is not told: $(cat -- "$scratch/errors")"

# As process 1 of a PID namespace, whose orphans all become its children.
if unshare --map-root-user --pid --fork --mount-proc true 2>/dev/null; then
    unshare --map-root-user --pid --fork --mount-proc "$examples/run" sh -c 'exit 7' >"$scratch/output"
    [ $? -eq 7 ] || fail "not the command's status as process 1"
    says '^exited, status 7$'
fi

# In any order: they run at once.
expect 0 poll_loop 'exit 3' 'sleep 60' 'kill -KILL $$' 'sleep 0.3 & wait'
says '^exit 3: exited, status 3'
says '^sleep 60: breach (wall), status 124'
says '^kill -KILL $$: signaled, status 137'
says '^sleep 0.3 & wait: exited, status 0'
[ "$(wc -l <"$scratch/output")" -eq 4 ] || fail "not a line for each run"

expect 0 event_loop sleep 60
says '^cancelled, status 143$'
[ "$(grep -c '^tick$' "$scratch/output")" -ge 3 ] || fail "the loop did not go on beside the run"
expect 0 event_loop true
says '^exited, status 0$'

# --- the text of the example ---

# block FILE: its first block of code that includes the header. In the manual page's source a
# backslash is written twice.
block() {
    twice=no
    case $1 in *.scd) twice=yes ;; esac
    awk -v twice=$twice '
        /^```/ { if (open && wanted) { exit } open = !open; wanted = 0; text = ""; next }
        twice == "yes" { gsub(/\\\\/, "\\") }
        open { text = text $0 "\n"; if ($0 ~ /^#include <sbx/) { wanted = 1 } }
        END { printf "%s", wanted ? text : "" }' "$1"
}

sed -n '/^#include <sbx/,$p' "$source/examples/run.c" >"$scratch/run"
[ -s "$scratch/run" ] || fail "examples/run.c does not include the header"
for document in README.md docs/sbx.3.scd; do
    block "$source/$document" >"$scratch/block"
    diff -u "$scratch/run" "$scratch/block" || fail "$document has another example than examples/run.c"
    sed 's/"2s"/"3s"/' "$source/$document" >"$scratch/changed.${document##*.}"
    block "$scratch/changed.${document##*.}" >"$scratch/block"
    ! cmp -s "$scratch/run" "$scratch/block" || fail "a change of $document is not noticed"
done
exit "$status"
