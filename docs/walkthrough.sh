#!/bin/sh
# walkthrough.sh - executions from start to end, with a shell and curl alone:
#
#     sh docs/walkthrough.sh [BUILD-DIRECTORY]
#
# Starts an sbxd of its own on a temporary directory, and shows the contract step by step:
# each prints what it does and checks what it got. Takes some seconds, leaves nothing
# behind, and fails where anything is not as it says. Without BUILD-DIRECTORY the sbxd of
# ./build is used, or the one in PATH.
set -u
umask 077

build=${1-}
if [ -z "$build" ] && [ -x build/sbxd ]; then
    build=build
fi
if [ -n "$build" ]; then
    PATH=$(CDPATH='' cd -- "$build" && pwd -P):$PATH
fi
for program in sbxd curl; do
    command -v "$program" >/dev/null 2>&1 || { echo "walkthrough: there is no $program" >&2; exit 1; }
done

scratch=$(mktemp -d "${TMPDIR:-/tmp}/sbx-walkthrough.XXXXXX") || exit 1
socket=$scratch/sbxd.sock
sbxd=''

# --- helpers: a request, what is expected of its answer, and the end ---

say() {
    printf '%s\n' "$*"
}

die() {
    printf 'walkthrough: %s\n' "$*" >&2
    for file in "$scratch/status" "$scratch/answer" "$scratch/sbxd.log"; do
        [ ! -s "$file" ] || sed "s,^,    ${file##*/}: ," "$file" >&2
    done
    exit 1
}

# Commands outlive sbxd: so they are ended through it, by another one if the first is gone.
leave() {
    left_with=$?
    trap - EXIT HUP INT TERM
    if [ -n "$sbxd" ]; then
        kill -0 "$sbxd" 2>/dev/null || start_sbxd
        request POST /v1/shutdown --data '{"cancel": true}' || kill -TERM "$sbxd"
        wait "$sbxd"
    fi
    rm -rf -- "$scratch"
    exit "$left_with"
}
trap leave EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# request METHOD PATH [CURL-OPTION]...: the answer to $scratch/answer, its status to $status.
request() {
    method=$1
    path=$2
    shift 2
    status=$(curl --silent --show-error --max-time 40 --unix-socket "$socket" --request "$method" \
        --dump-header "$scratch/headers" --output "$scratch/answer" --write-out '%{http_code}' \
        "$@" "http://sbx$path" 2>"$scratch/status")
}

# ask STATUS METHOD PATH [CURL-OPTION]...: shows the request; its answer must have that status.
ask() {
    expected=$1
    shift
    shown="$1 $2"
    case "${3-} ${4-}" in
    --data*) shown="$shown  $4" ;;
    esac
    say "   \$ $shown"
    request "$@" || die "curl has failed"
    [ "$status" = "$expected" ] || die "status $status where $expected was expected"
    say "   $status$(head -c 150 -- "$scratch/answer" | tr -d '\000' | tr -c '[:print:]' ' ' | sed 's/^./  &/')"
}

# expect TEXT: the answer has it.
expect() {
    grep -qF -- "$1" "$scratch/answer" || die "the answer lacks: $1"
}

# header NAME VALUE
expect_header() {
    tr -d '\r' <"$scratch/headers" | grep -qixF -- "$1: $2" || {
        cp -- "$scratch/headers" "$scratch/answer"
        die "there is no header $1: $2"
    }
}

# number KEY: the first one of that name in the answer.
number() {
    sed -n "s/.*\"$1\":\([0-9][0-9]*\).*/\1/p" "$scratch/answer" | head -n 1
}

start_sbxd() {
    sbxd --state="$scratch/state" --socket="$socket" 2>>"$scratch/sbxd.log" &
    sbxd=$!
    tries=0
    until request GET /v1/stats && [ "$status" = 200 ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 200 ] || die "sbxd does not answer"
        kill -0 "$sbxd" 2>/dev/null || die "sbxd has ended"
        sleep 0.05
    done
}

# until_over ID: leaves the last snapshot in the answer.
until_over() {
    tries=0
    until request GET "/v1/executions/$1" && ! grep -qF '"status":"running"' "$scratch/answer"; do
        tries=$((tries + 1))
        [ "$tries" -lt 200 ] || die "$1 does not end"
        sleep 0.1
    done
}

# --- the walk ---

say "sbxd on $scratch (curl --unix-socket $socket http://sbx/...)"
start_sbxd

say '1. A command under an id, with limits'
hello='{"id": "hello", "command": "sh", "args": ["-c", "echo one; echo two >&2; exit 3"], "limits": {"wall": "10s", "memory": "64M"}}'
ask 201 POST /v1/executions --data "$hello"
expect '"id":"hello"'

say '2. The same again, as after a lost answer: the same execution, no second one'
ask 200 POST /v1/executions --data "$hello"

say '3. Another request under that id: refused, and nothing has changed'
ask 409 POST /v1/executions --data '{"id": "hello", "command": "true"}'
expect '"error"'

say '4. What happened, by number: from the start, and from where we were'
after=0
: >"$scratch/types"
until grep -qx finished "$scratch/types"; do
    ask 200 GET "/v1/executions/hello/events?after=$after&wait=10s"
    grep -o '"type":"[a-z]*"' "$scratch/answer" | cut -d '"' -f 4 >>"$scratch/types"
    last=$(number latest_sequence)
    [ "$last" -gt "$after" ] || die "no event within 10 s"
    after=$last
done
[ "$(head -n 1 "$scratch/types")" = started ] || die "the first event is not: started"
[ "$(tail -n 1 "$scratch/types")" = finished ] || die "the last event is not: finished"
[ "$(wc -l <"$scratch/types")" -eq "$after" ] || die "events are missing, or came twice"
say "   events: $(tr '\n' ' ' <"$scratch/types")"

say '5. The result: one snapshot with the whole report, for as long as it is kept'
ask 200 GET /v1/executions/hello
expect '"status":"failed"'
expect '"exit_code":3'

say '6. Its output, as bytes by offset'
ask 200 GET '/v1/executions/hello/stdout?offset=0'
expect_header X-Sbx-Next 4
[ "$(cat "$scratch/answer")" = one ] || die "stdout is not: one"
ask 200 GET '/v1/executions/hello/stderr?offset=2'
[ "$(cat "$scratch/answer")" = o ] || die "from offset 2 on stderr is not: o"

say '7. A command that writes 100 MB and is held up by nobody: head and tail are kept, the gap is told'
ask 201 POST /v1/executions --data '{"id": "flood", "command": "sh", "args": ["-c", "echo first; head -c 100000000 /dev/zero; echo last"], "output_limit": "8K"}'
until_over flood
request GET '/v1/executions/flood/stdout?offset=0' && expect first
next=$(tr -d '\r' <"$scratch/headers" | sed -n 's/^[Xx]-[Ss]bx-[Nn]ext: //p')
ask 200 GET "/v1/executions/flood/stdout?offset=$next"
expect_header X-Sbx-Eof 1
expect last
say "   $(tr -d '\r' <"$scratch/headers" | grep -i '^x-sbx-gap')"

say '8. Standard input that stays open'
ask 201 POST /v1/executions --data '{"id": "cat", "command": "cat", "stdin": "open"}'
ask 204 POST /v1/executions/cat/stdin --data-binary 'some words'
ask 200 GET '/v1/executions/cat/stdout?offset=0&wait=10s'
[ "$(cat "$scratch/answer")" = 'some words' ] || die "cat has not said: some words"
ask 204 POST '/v1/executions/cat/stdin?close=1'
ask 200 GET '/v1/executions/cat/stdout?offset=10&wait=10s'
expect_header X-Sbx-Eof 1

say '9. Held, let go on, and a signal of our own'
ask 201 POST /v1/executions --data '{"id": "long", "command": "sh", "args": ["-c", "trap \"echo usr1\" USR1; echo ready; while :; do sleep 0.1; done"]}'
ask 200 GET '/v1/executions/long/stdout?offset=0&wait=10s'
ask 204 POST /v1/executions/long/pause
ask 204 POST /v1/executions/long/resume
ask 204 POST /v1/executions/long/signal --data '{"signal": "USR1"}'
ask 200 GET '/v1/executions/long/stdout?offset=6&wait=10s'
expect usr1

say '10. kill -9 of sbxd, and a new one: the command goes on, everything is known'
kill -KILL "$sbxd"
wait "$sbxd" 2>/dev/null
start_sbxd
ask 200 GET /v1/executions/long
expect '"status":"running"'
ask 200 POST /v1/executions --data "$hello"
expect '"exit_code":3'

say '11. The end, in order, and waited for; asked for again it changes nothing'
ask 200 POST '/v1/executions/long/cancel?wait=20s'
expect '"status":"cancelled"'
ask 202 POST /v1/executions/long/cancel

say '12. Forgotten'
ask 204 DELETE /v1/executions/long
ask 404 GET /v1/executions/long
ask 200 GET /v1/executions

say '13. sbxd ends'
ask 202 POST /v1/shutdown --data '{"cancel": true}'
wait "$sbxd" || die "sbxd has ended with status $?"
sbxd=''
say 'walkthrough: everything was as it should be'
