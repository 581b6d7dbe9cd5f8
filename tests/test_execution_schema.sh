#!/bin/sh
# test_execution_schema.sh BUILD-DIRECTORY - every answer of sbxd that is JSON is one line
# that docs/execution.schema.json describes; answers that are changed in one place are not.
# Skipped (77) without python3-jsonschema or curl.
set -u
PATH=$1:$PATH
source=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P) || exit 1
if ! /usr/bin/python3 -W ignore -c 'import jsonschema' 2>/dev/null || ! command -v curl >/dev/null 2>&1; then
    echo "SKIP: python3-jsonschema or curl is not installed"
    exit 77
fi
scratch=$(mktemp -d "${TMPDIR:-/tmp}/sbx-answers.XXXXXX") || exit 1
answers=$scratch/answers
: >"$answers"
sbxd=''

call() {
    curl --silent --show-error --max-time 30 --unix-socket "$scratch/socket" --request "$1" "http://sbx$2" ${3+--data "$3"}
}

die() {
    echo "$*"
    cat -- "$scratch/log" "$scratch/answer" 2>/dev/null
    exit 1
}

leave() {
    left_with=$?
    trap - EXIT HUP INT TERM
    if [ -n "$sbxd" ]; then
        call POST /v1/shutdown '{"cancel": true}' >/dev/null 2>&1 || kill -TERM "$sbxd"
        wait "$sbxd"
    fi
    rm -rf -- "$scratch"
    exit "$left_with"
}
trap leave EXIT
trap 'exit 1' HUP INT TERM

# ask METHOD PATH [BODY]: adds the answer to the list.
ask() {
    call "$@" >"$scratch/answer" || die "no answer: $*"
    [ "$(wc -l <"$scratch/answer")" -eq 1 ] || die "not one line: $*"
    cat -- "$scratch/answer" >>"$answers"
}

# finish ID: asks for its events until it has finished, then for the whole.
finish() {
    after=0
    until grep -q '"type":"finished"' "$scratch/answer"; do
        ask GET "/v1/executions/$1/events?after=$after&wait=20s"
        last=$(sed 's/.*"latest_sequence":\([0-9]*\).*/\1/' "$scratch/answer")
        [ "$last" -gt "$after" ] || die "$1 does not finish"
        after=$last
    done
    ask GET "/v1/executions/$1"
}

# run ID JSON: an execution from its start to its end, of which the other keys are given.
run() {
    ask POST /v1/executions "{\"id\": \"$1\", $2}"
    finish "$1"
}

sbxd --state="$scratch/state" --socket="$scratch/socket" 2>"$scratch/log" &
sbxd=$!
tries=0
until call GET /v1/stats >"$scratch/answer" 2>/dev/null; do
    tries=$((tries + 1))
    { [ "$tries" -lt 300 ] && kill -0 "$sbxd" 2>/dev/null; } || die "sbxd does not serve"
    sleep 0.05
done

ask GET /v1/executions
# The inner shell expands that.
# shellcheck disable=SC2016
run exited '"command": "sh", "args": ["-c", "echo \"$WORD\"; echo fault >&2"], "env": {"WORD": "h\u00e4ll\u00f6"}'
run binary '"command": "printf", "args": ["\\0\\377\\n"]'
run failed '"command": "sh", "args": ["-c", "kill -SEGV $$"], "ceilings": {"core": 0}'
run nothing '"command": "/no/such/program"'
run late '"command": "sleep", "args": ["60"], "limits": {"wall": "100ms"}, "grace": 0'
run greedy '"command": "sh", "args": ["-c", "sleep 60 & sleep 60 & wait"], "limits": {"processes": 2}'
run flood '"command": "head", "args": ["-c", "1000000", "/dev/zero"], "output_limit": "4K", "event_limit": 8'
ask POST /v1/executions '{"id": "held", "command": "cat", "stdin": "open"}'
ask GET '/v1/executions/held/events?wait=20s'
call POST /v1/executions/held/pause >"$scratch/answer" || die "no answer to pause"
ask GET /v1/executions/held
ask GET /v1/executions
ask POST '/v1/executions/held/cancel?wait=20s'
finish held
ask GET '/v1/executions/held/events?after=9999999'
ask GET /v1/executions/none
ask GET /nowhere
ask PUT /v1/executions
ask POST /v1/executions '{"id": "exited", "command": "false"}'
ask POST /v1/executions '{"command": "true", "limits": {"wall": "6 s"}}'
ask POST /v1/executions '{"co'
ask GET /v1/executions
ask GET /v1/stats

for kind in '"expired":true' '"data":"' '"data_base64":"' '"type":"gap"' '"type":"breach"' '"type":"started"' \
    '"status":"timed_out"' '"status":"breached"' '"status":"cancelled"' '"status":"failed"' '"status":"completed"' \
    '"status":"running"' '"paused":true' '"outcome":"launch-failed"' '"error":'; do
    grep -qF -- "$kind" "$answers" || die "no answer has $kind"
done

check() {
    /usr/bin/python3 -W ignore "$source/tests/validate_report.py" --schema "$source/docs/execution.schema.json" --lines "$1"
}
check "$answers" || die "see above"
echo "$(wc -l <"$answers") answers"

# change NAME SED-COMMAND: an answer that is changed so is no answer any more.
: >"$scratch/changed"
change() {
    sed "$2" "$answers" | diff -- "$answers" - | sed -n 's/^> //p' | head -n 1 >"$scratch/one"
    [ -s "$scratch/one" ] || die "nothing to change: $1"
    cat -- "$scratch/one" >>"$scratch/changed"
}
change 'a status' 's/"status":"completed"/"status":"done"/'
change 'a time' 's/"created_at":"\([^"]*\)Z"/"created_at":"\1"/'
change 'a key more' 's/{"id":/{"more":1,"id":/'
change 'a key less' 's/"latest_sequence":[0-9]*,//'
change 'a report inside' 's/"outcome":"breach","/"outcome":"other","/'
change 'an event' 's/"type":"stdout"/"type":"stdin"/'
change 'bytes' 's/"length":[0-9]*,//'
change 'an error' 's/"message":"/"text":"/'
check "$scratch/changed" >"$scratch/said"
noticed=$(grep -o '^[^ ]*:[0-9]*: ' "$scratch/said" | sort -u | wc -l)
[ "$noticed" -eq "$(wc -l <"$scratch/changed")" ] || {
    cut -c 1-200 "$scratch/said" "$scratch/changed"
    die "only $noticed of 8 faults are noticed"
}
