#!/bin/sh
# test_sbxctl.sh SBXCTL SBXD SBX-KEEPER SBX-RUN - sbxctl on a service of its own: what each
# command prints, and the status that it ends with; what of its options arrives at the
# command; who goes on when the service is killed.
#
# Waits for events, never for a time. At the end the service is to have ended in order, and
# no execution to be left.
set -u
ctl=$1
sbxd=$2
SBX_KEEPER=$3
SBX_RUN=$4
scratch=$(mktemp -d "${TMPDIR:-/tmp}/sbx-ctl.XXXXXX") || exit 1
SBX_SOCKET=$scratch/socket
export SBX_KEEPER SBX_RUN SBX_SOCKET
out=$scratch/out
err=$scratch/err
status=0
daemon=''

leave() {
    if [ -n "$daemon" ]; then
        "$ctl" shutdown --cancel >/dev/null 2>&1
        kill -KILL "$daemon" 2>/dev/null
    fi
    rm -rf -- "$scratch"
}
trap leave EXIT
cd -- "$scratch" || exit 1

fail() {
    echo "$*"
    status=1
}

# expect STATUS ARGUMENT...: runs sbxctl; what it prints is in $out and $err.
expect() {
    wanted=$1
    shift
    "$ctl" "$@" >"$out" 2>"$err" </dev/null
    ended "$wanted" $? "$*"
}

ended() {
    if [ "$2" -ne "$1" ]; then
        fail "sbxctl $3: status $2 where $1 was expected"
        cat -- "$out" "$err"
    fi
}

# says PATTERN, complains PATTERN: a line of its output, of its messages, is like that.
says() {
    grep -q -e "$1" -- "$out" || { fail "no line like '$1' in:"; cat -- "$out"; }
}
complains() {
    grep -q -e "$1" -- "$err" || { fail "no message like '$1' in:"; cat -- "$err"; }
}
# prints TEXT: that is all of its output.
prints() {
    [ "$(cat -- "$out")" = "$1" ] || { fail "not '$1' but:"; cat -- "$out"; }
}

# until_true COMMAND...: tries for at most 20 seconds.
until_true() {
    tries=0
    until "$@" >"$out" 2>"$err"; do
        tries=$((tries + 1))
        if [ "$tries" -gt 400 ]; then
            fail "not in time: $*"
            return 1
        fi
        sleep 0.05
    done
}

says_pid() {
    "$ctl" logs "$1" | grep -q '[0-9]'
}

wrote() {
    [ "$("$ctl" logs "$1")" = "$2" ]
}

serve() {
    "$sbxd" --socket "$SBX_SOCKET" --state "$scratch/state" 2>>"$scratch/said" &
    daemon=$!
    until_true "$ctl" list
}

# --- what is wrong with a command line is told before anything is asked ---

expect 0 --help
says '^Usage: sbxctl .*COMMAND'
expect 0 --version
says '^sbxctl [0-9]'
for command in start list show events logs stdin signal pause resume cancel rm stats metrics verify shutdown; do
    expect 0 "$command" --help
    says "^Usage: sbxctl $command"
done
expect 0 start --help
says ' --wall DUR '
says ' --sandbox-bind PATH'
! grep -q -e '--report\|--detach\|--sandbox-env' -- "$out" || fail "start takes what is no part of a request"

wrong() {
    pattern=$1
    shift
    expect 125 "$@"
    complains "^sbxctl: $pattern"
    [ ! -s "$out" ] || fail "sbxctl $*: prints beside an error"
}
wrong 'no command given'
wrong "unknown command 'bogus'" bogus
wrong 'unknown option --bogus' --bogus list
wrong 'unknown option --bogus' list --bogus
wrong 'unknown option -x' list -x
wrong 'missing arguments' show
wrong 'too many arguments' show a b
wrong 'too many arguments' list a
wrong "'../a' is no id" show ../a
wrong "'a/b' is no id" rm a/b
wrong "'' is no id" cancel ''
wrong 'option --wait: needs a value' cancel a --wait
wrong "option --wait: '5x'" cancel a --wait 5x
wrong 'option --json: takes no value' --json=yes list
wrong "option --offset: '1x'" logs --offset 1x a
wrong 'option --both: does not go with --stderr' logs --both --stderr a
wrong "option --after: '-1'" events --after -1 a
wrong 'no command given' start
wrong 'no command given' start --wall 5
wrong 'unknown option --report' start --report x true
wrong 'unknown option --sandbox-env' start --sandbox-env X true
wrong "option --rlimit: 'nofile'" start --rlimit nofile true
wrong "option --env: there is no variable 'CTL_TEST_NOT_SET'" start --env CTL_TEST_NOT_SET true
wrong 'option --request: /nonexistent: ' start --request /nonexistent
wrong '--stdin - and --request -' start --stdin - --request -
wrong 'cannot connect to .*is sbxd running' list
wrong 'cannot connect to /nonexistent/socket' --socket /nonexistent/socket list
wrong 'cannot connect to /nonexistent/socket' list --socket=/nonexistent/socket

serve

# --- one from its start to its end ---

expect 0 list
[ "$(wc -l <"$out")" -eq 1 ] || fail "there is something already"
says '^ID .*STATUS .*OUTCOME$'
script='echo out; echo err >&2; exit 7'
expect 0 start --id a -- sh -c "$script"
prints a
expect 7 start --id a --wait -- sh -c "$script" # the same one
prints a
expect 1 start --id a -- true
complains "^sbxctl: .*a.* another request"
expect 0 list
says '^a  *failed  *[-0-9]*T[0-9:]*Z  *[-0-9]*T[0-9:]*Z  *exited$'
expect 0 --json list
says '^{"executions":\[{"id":"a",'
expect 0 show a
says '^outcome  *exited, exit code 7$'
says '^proof '
expect 0 show a --json
says '^{"id":"a","status":"failed",.*"exit_code":7,'
expect 0 logs a
prints out
expect 0 logs --stderr a
prints err
expect 0 logs -f --both a
prints out
complains '^err$'
expect 0 logs a --offset=2
prints t
expect 0 events a
says '^1 .* started pid='
says '^[23] .* stdout offset=0 length=4 data="out\\n"$'
says '^4 .* finished status="failed"$'
expect 0 events -f --after 3 a
[ "$(wc -l <"$out")" -eq 1 ] || fail "events of before"
expect 0 events -f --after 4 a # there is nothing behind it, and there will not be
prints ''
expect 0 events -f --after 99 a
prints ''
expect 0 events --json a
says '^{"events":\[{.*"first_sequence":1'
expect 0 events --json -f a
[ "$(grep -c '^{"sequence":' -- "$out")" -eq 4 ] || fail "not a line for each event"
for command in show events logs cancel pause resume rm; do
    expect 1 "$command" none
    complains '^sbxctl: .*no such execution'
done
for command in pause resume; do
    expect 1 "$command" a
done
expect 1 signal a TERM
expect 1 stdin a # it has none any more

# --- how a command ended, as an exit status ---

expect 3 start --follow -- sh -c 'echo out; echo err >&2; exit 3'
prints out
complains '^err$'
expect 137 start --wait -- sh -c 'kill -KILL $$'
expect 139 start -f -- sh -c 'kill -SEGV $$'
expect 124 start --follow --wall 100ms -- sleep 60
complains '^sbxctl: [0-9a-f]*: breach: wall limit 0.100s, observed 0\.'
expect 127 start --wait -- /nonexistent/command
complains '^sbxctl: .*/nonexistent/command'
expect 126 start --wait -- "$scratch"
expect 125 start --wait --wall 5x -- true
complains '^sbxctl: limits.wall: '
expect 125 start -- ''
expect 0 start --follow --json -- printf '%s' '{}'
prints '{}'
expect 0 start --wait --json -- true
says '^{"id":"[0-9a-f]*","status":"completed",'
expect 0 start -- true
grep -q '^[0-9a-f]\{32\}$' -- "$out" || fail "no id was made: $(cat -- "$out")"

"$ctl" start --id c --wait -- sleep 60 >"$scratch/waited" 2>&1 &
waiting=$!
until_true "$ctl" show c
expect 0 cancel c --wait 20s
wait "$waiting"
ended 143 $? "start --wait of what is cancelled"
expect 0 cancel c
expect 0 show c
says '^status  *cancelled$'
expect 0 rm c
expect 1 show c

expect 0 start --id r --grace 200ms -- sh -c 'trap "" TERM; echo ready; while :; do sleep 0.1; done'
until_true wrote r ready
expect 1 cancel --wait 1ms r
complains '^sbxctl: r: not all of it has ended within 1ms$'
expect 0 rm --wait 20 r
expect 1 show r

# --- what of the options arrives ---

CTL_TEST_OURS='from here'
export CTL_TEST_OURS
mkdir -p -- "$scratch/sub"
(cd -- "$scratch/sub" && "$ctl" start -f --env CTL_TEST_OURS --env CTL_TEST_SET=a=b --chdir . \
    --rlimit nofile=64:128 --launcher env --launcher CTL_TEST_LAUNCHED=yes --umask 027 -- sh -c \
    'echo "$CTL_TEST_OURS/$CTL_TEST_SET/$CTL_TEST_LAUNCHED"; pwd -P; ulimit -Sn; ulimit -Hn; umask' >"$out" 2>"$err")
ended 0 $? "start with options"
prints "from here/a=b/yes
$(cd -- "$scratch/sub" && pwd -P)
64
128
0027"
expect 0 start --id l -w 50s -c10 -m 1G --processes=20 --idle 40s --warn 50 --output-keep 1K -- true
expect 0 start --id l -w 50s -c10 -m 1G --processes=20 --idle 40s --warn 50 --output-keep 1K --wait -- true
expect 0 --json show l
for limit in '"wall_us":50000000' '"cpu_us":10000000' '"memory_bytes":1073741824' '"processes_count":20' \
    '"idle_us":40000000'; do
    grep -q -e "\"limits\":{[^}]*${limit%_count*}" -- "$out" || fail "no $limit in $(cat -- "$out")"
done
printf '{"id": "q", "command": "echo", "args": ["a", "b"], "limits": {"wall": "5s"}}' >"$scratch/request"
expect 0 start --follow --request "$scratch/request"
prints 'a b'
"$ctl" start -f --request - --id q2 -- echo c <"$scratch/request" >"$out" 2>"$err"
ended 0 $? "start --request -"
prints c
expect 0 show q2
if "$SBX_RUN" -- true 2>/dev/null; then
    echo here >"$scratch/sub/file"
    (cd -- "$scratch/sub" && "$ctl" start -f --sandbox-bind . --sandbox-network none --chdir . --env CTL_TEST_OURS -- \
        sh -c 'cat file; echo "$CTL_TEST_OURS"; ls -A /root' >"$out" 2>"$err")
    ended 0 $? "start in a sandbox"
    prints 'here
from here'
else
    echo "(no sandbox here)"
fi

# Whatever option there is, the service knows the key; a value of those that it looks at last
# is wrong, so that none starts.
"$ctl" start --help | sed -n 's/^  \(   \|-.,\) --\([a-z][-a-z]*\) [^ ].*/\2=x/p; s/^  \(   \|-.,\) --\([a-z][-a-z]*\)\( \{2,\}.*\|\)$/\2/p' \
    >"$scratch/options"
[ "$(wc -l <"$scratch/options")" -gt 50 ] || fail "options of start: $(cat -- "$scratch/options")"
while read -r option; do
    case $option in
    wait | follow | request=x | socket=x | json | help | version) continue ;;
    esac
    expect 125 start "--$option" --sandbox-rlimit=nofile=x -- true
    ! grep -q 'unknown \(key\|option\)' -- "$err" || fail "--$option: $(cat -- "$err")"
done <"$scratch/options"

# --- streams: any bytes, as they are ---

awk 'BEGIN { for (i = 0; i < 3000; i++) { printf "%c%c%d\n", i % 256, 255 - i % 256, i } }' >"$scratch/bytes"
printf 'a\000b\377\n' >>"$scratch/bytes"
"$ctl" start --follow --output-limit 1M --stdin - -- cat <"$scratch/bytes" >"$out" 2>"$err"
ended 0 $? "start --stdin -"
cmp -- "$scratch/bytes" "$out" || fail "other bytes come back"
expect 0 start --id s --output-limit 4M --stdin open -- cat
i=0
while [ "$i" -lt 20 ]; do
    cat -- "$scratch/bytes"
    i=$((i + 1))
done >"$scratch/more"
"$ctl" stdin s <"$scratch/bytes" 2>"$err" || fail "stdin: $(cat -- "$err")"
"$ctl" stdin --close s <"$scratch/more" 2>"$err" || fail "stdin --close: $(cat -- "$err")"
expect 0 logs -f s
cat -- "$scratch/bytes" "$scratch/more" | cmp - "$out" || fail "other bytes were read"
expect 1 stdin s

expect 0 start --id gap --output-limit 2K --wait -- sh -c 'yes abcdefg | head -c 100000'
expect 0 logs gap
complains '^\[[0-9]* bytes dropped\]$'
dropped=$(tr -dc '0-9' <"$err")
[ "$((dropped + $(wc -c <"$out")))" -eq 100000 ] || fail "$dropped dropped and $(wc -c <"$out") kept are not 100000"
expect 0 start --id few --event-limit 8 --wait -- sh -c 'for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 0.02; done'
expect 0 events few
complains '^\[[0-9]* events dropped\]$'

# --- signals, and standing still ---

expect 0 start --id g -- sh -c 'trap "echo got; exit 5" USR1; echo ready; while :; do sleep 0.05; done'
until_true wrote g ready
expect 125 signal g NOSUCH
expect 0 pause g
expect 0 show g
says '^paused  *yes$'
expect 0 resume g
expect 0 signal g USR1
expect 0 logs -f g
prints 'ready
got'
expect 0 events -f g
says ' finished status="failed"'

# --- the service ---

expect 0 stats
says '^started_total  *[0-9]'
says '^finished_total.completed  *[0-9]'
expect 0 --json stats
says '^{.*"started_total":'
expect 0 metrics
says '^sbx_executions_started_total [0-9]'

# Killed while somebody reads: who reads goes on with the next one.
script='echo one; while [ ! -e go ]; do sleep 0.05; done; echo two; exit 6'
expect 0 start --id k --chdir . -- sh -c "$script"
"$ctl" start --follow --id k --chdir . -- sh -c "$script" \
    >"$scratch/followed" 2>"$scratch/followed-err" &
following=$!
"$ctl" events -f k >"$scratch/events" 2>&1 &
watching=$!
until_true grep -q one "$scratch/followed"
until_true grep -q one "$scratch/events"
kill -KILL "$daemon"
wait "$daemon" 2>/dev/null
serve
: >"$scratch/go"
wait "$following"
ended 6 $? "start --follow over a kill of sbxd"
wait "$watching"
ended 0 $? "events -f over a kill of sbxd"
[ "$(cat -- "$scratch/followed")" = 'one
two' ] || fail "followed: $(cat -- "$scratch/followed" "$scratch/followed-err")"
[ "$(cut -d ' ' -f 1,3 "$scratch/events" | tr '\n' ' ')" = '1 started 2 stdout 3 stdout 4 finished ' ] ||
    fail "events: $(cat -- "$scratch/events")"

# It ends; what runs goes on, and the next one has it; until that is to end it too.
expect 0 start --id z -- sh -c 'echo $$; exec sleep 600'
until_true says_pid z
leader=$("$ctl" logs z)
expect 0 shutdown
wait "$daemon"
ended 0 $? "sbxd after shutdown"
kill -0 "$leader" || fail "the execution has ended with sbxd"
serve
expect 0 show z
says '^status  *running$'
expect 0 shutdown --cancel
wait "$daemon"
ended 0 $? "sbxd after shutdown --cancel"
daemon=''
! kill -0 "$leader" 2>/dev/null || fail "the execution goes on after shutdown --cancel"
[ ! -s "$scratch/said" ] || { fail "sbxd said:"; cat -- "$scratch/said"; }
exit "$status"
