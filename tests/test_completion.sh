#!/bin/sh
# test_completion.sh SCRIPT SBX-WATCH SCRIPT SBX-RUN SCRIPT SBXD SCRIPT SBXCTL - the
# completions for bash, driven as bash drives them.
#
# The script is read into a bash without any other completions, and its function called
# with the words that bash would make of a line. Every option of --help is completed, and
# nothing else. Skipped (77) where there is no bash.
if [ -z "${BASH_VERSION-}" ] || [ -z "${SBX_COMPLETION_BASH-}" ]; then
    command -v bash >/dev/null 2>&1 || { echo "skipped: bash is not installed"; exit 77; }
    SBX_COMPLETION_BASH=1 exec bash --norc --noprofile "$0" "$@"
fi
set -u
script=$1
watch=$2
run_script=$3
run=$4
sbxd_script=$5
sbxd=$6
ctl_script=$7
ctl=$8
status=0
completes=_sbx_watch # the function

fail() {
    echo "$*"
    status=1
}

bash -n "$script" || fail "bash -n finds a fault"
complete -r
# shellcheck disable=SC1090
. "$script"
[[ $(complete -p sbx-watch) == 'complete -F _sbx_watch sbx-watch' ]] ||
    fail "not registered: $(complete -p sbx-watch)"

scratch=$(mktemp -d "${TMPDIR:-/tmp}/sbx-completion.XXXXXX") || exit 1
trap 'rm -rf -- "$scratch"' EXIT
cd -- "$scratch" || exit 1
mkdir -- sub
: >report.json
: >re:port
printf '#!/bin/sh\n' >tool && chmod 755 tool

# As readline cuts a line into words: at blanks, and the characters of COMP_WORDBREAKS are
# words of their own. The cursor is at the end; behind a blank an empty word begins.
cut() {
    local line=$1 word='' i char
    COMP_LINE=$line COMP_POINT=${#line} COMP_WORDS=()
    for ((i = 0; i < ${#line}; i++)); do
        char=${line:i:1}
        if [[ $char == ' ' ]]; then
            [[ -z $word ]] || COMP_WORDS+=("$word")
            word=''
        elif [[ $COMP_WORDBREAKS == *"$char"* && -n $word && $COMP_WORDBREAKS != *"${word: -1}"* ]] ||
            [[ -n $word && $COMP_WORDBREAKS == *"${word: -1}"* && $COMP_WORDBREAKS != *"$char"* ]]; then
            COMP_WORDS+=("$word")
            word=$char
        else
            word+=$char
        fi
    done
    COMP_WORDS+=("$word")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
}

# complete_line LINE: the answers, sorted, in "got".
complete_line() {
    cut "$1"
    COMPREPLY=()
    "$completes" "${COMP_WORDS[0]}" "${COMP_WORDS[COMP_CWORD]}" ''
    got=$(printf '%s\n' "${COMPREPLY[@]}" | sort | tr '\n' ' ')
    got=${got% }
}

# wants LINE ANSWERS
wants() {
    complete_line "$1"
    [[ $got == "$2" ]] || fail "\"$1\": \"$got\" instead of \"$2\""
}

# has LINE ANSWER: among others.
has() {
    complete_line "$1"
    [[ " $got " == *" $2 "* ]] || fail "\"$1\": no \"$2\" in \"$got\""
}

lacks() {
    complete_line "$1"
    [[ " $got " != *" $2 "* ]] || fail "\"$1\": \"$2\" should not be there"
}

# Every option that the help lists, long and short, and no other.
options_of() {
    "$@" --help | sed -n 's/^ *\(-[a-zA-Z]\), \(--[a-z-]*\).*/\1 \2/p; s/^ *\(--[a-z-]*\).*/\1/p' |
        tr ' ' '\n' | sort | tr '\n' ' '
}
all=$(options_of "$watch")
[[ $all == *'--wall'*'-w'* ]] || fail "the help lists: $all"
wants 'sbx-watch -' "${all% }"
wants 'sbx-watch --wa' '--wall --warn'
wants 'sbx-watch --wall' '--wall'
wants 'sbx-watch -q --rep' '--report --report-fd'
wants 'sbx-watch --wall 5 --str' '--strays'
wants 'sbx-watch --wall=5 --str' '--strays'
wants 'sbx-watch -w5 --str' '--strays'
wants 'sbx-watch -qw 5 --str' '--strays'
wants 'sbx-watch --nosuch' ''

# Words of a choice, in both spellings.
wants 'sbx-watch --strays ' 'keep kill wait'
wants 'sbx-watch --strays k' 'keep kill'
wants 'sbx-watch --strays=' 'keep kill wait'
wants 'sbx-watch --strays=k' 'keep kill'
wants 'sbx-watch --format=t' 'text'
wants 'sbx-watch --require ' 'cgroup2 complete kernel-limits pid-namespace'
wants 'sbx-watch --strays=kill --format ' 'json kv text'

# Where "=" cuts no words, the whole word is answered.
before=$COMP_WORDBREAKS
COMP_WORDBREAKS=${COMP_WORDBREAKS//=/}
wants 'sbx-watch --strays=k' '--strays=keep --strays=kill'
wants 'sbx-watch --rlimit=nof' '--rlimit=nofile='
COMP_WORDBREAKS=$before

# Signals and ceilings.
wants 'sbx-watch -s TE' 'TERM'
wants 'sbx-watch --signal SIGTE' 'SIGTERM'
wants 'sbx-watch --signal=US' 'USR1 USR2'
lacks 'sbx-watch -s ' 'STOP'
has 'sbx-watch -qs ' 'HUP'
wants 'sbx-watch --rlimit no' 'nofile='
wants 'sbx-watch --rlimit np' 'nproc='
wants 'sbx-watch --rlimit=mem' 'memlock='
wants 'sbx-watch --rlimit nofile=6' ''
wants 'sbx-watch --rlimit nofile=64:128 --rlimit=co' 'core='
wants 'sbx-watch --rlimit nofile=64:128 --strays w' 'wait'

# Files where a file is wanted; nothing where a number is.
wants 'sbx-watch --report rep' 'report.json'
wants 'sbx-watch -r rep' 'report.json'
wants 'sbx-watch --report=rep' 'report.json'
wants 'sbx-watch -r re:p' 'port'
wants 'sbx-watch --wall re' ''
wants 'sbx-watch --wall=re' ''
wants 'sbx-watch -w re' ''

# The command: it, and what belongs to it. Not our options any more.
has 'sbx-watch bas' 'bash'
has 'sbx-watch -q -- bas' 'bash'
has 'sbx-watch --wall 5 bas' 'bash'
has 'sbx-watch ./to' './tool'
wants 'sbx-watch -- cat rep' 'report.json'
wants 'sbx-watch cat --wa' ''
wants 'sbx-watch -- cat --strays k' ''
wants 'sbx-watch --quiet cat -r rep' 'report.json'

# With bash-completion at hand the command's own completion is asked, for its place.
_command_offset() {
    COMPREPLY=("offset:$1:${COMP_WORDS[$1]}")
}
wants 'sbx-watch -w 5 git ' 'offset:3:git'
wants 'sbx-watch --wall=5 -q git pu' 'offset:5:git'
wants 'sbx-watch --rlimit nofile=64:128 -- git pu' 'offset:8:git'
wants 'sbx-watch -- gi' 'offset:2:gi'
wants 'sbx-watch gi' 'offset:1:gi'
wants 'sbx-watch --strays k' 'keep kill'
wants 'sbx-watch -- ' 'offset:2:'

# Without a line, as other drivers call it.
COMP_WORDS=(sbx-watch --strays = w) COMP_CWORD=3
COMP_LINE=
_sbx_watch
[[ ${COMPREPLY[*]} == wait ]] || fail "without a line: ${COMPREPLY[*]}"

# The same for sbx-run, beside the other; and one behind the other.
bash -n "$run_script" || fail "bash -n finds a fault in that of sbx-run"
# shellcheck disable=SC1090
. "$run_script"
[[ $(complete -p sbx-run) == 'complete -F _sbx_run sbx-run' ]] ||
    fail "not registered: $(complete -p sbx-run)"
completes=_sbx_run
all=$(options_of "$run")
[[ $all == *'--bind'*'--plan'* ]] || fail "the help of sbx-run lists: $all"
wants 'sbx-run -' "${all% }"
wants 'sbx-run --network ' 'host none'
wants 'sbx-run --seccomp=n' 'none'
wants 'sbx-run --rlimit no' 'nofile='
wants 'sbx-run --bind su' 'sub'
wants 'sbx-run --chdir=s' 'sub'
wants 'sbx-run --bind . -- gi' 'offset:4:gi'

# sbxd, which has no operands.
bash -n "$sbxd_script" || fail "bash -n finds a fault in that of sbxd"
# shellcheck disable=SC1090
. "$sbxd_script"
[[ $(complete -p sbxd) == 'complete -F _sbxd sbxd' ]] || fail "not registered: $(complete -p sbxd)"
completes=_sbxd
all=$(options_of "$sbxd")
[[ $all == *'--socket'*'--state'* ]] || fail "the help of sbxd lists: $all"
wants 'sbxd -' "${all% }"
wants 'sbxd --state su' 'sub'
wants 'sbxd --max-mem' '--max-memory'
wants 'sbxd -d . --sock' '--socket'
wants 'sbxd bas' ''

# sbxctl: commands, the options of each, and the command line behind `start`.
bash -n "$ctl_script" || fail "bash -n finds a fault in that of sbxctl"
# shellcheck disable=SC1090
. "$ctl_script"
[[ $(complete -p sbxctl) == 'complete -F _sbxctl sbxctl' ]] || fail "not registered: $(complete -p sbxctl)"
completes=_sbxctl
all=$(options_of "$ctl")
wants 'sbxctl -' "${all% }"
commands=$("$ctl" --help | sed -n 's/^  \([a-z][a-z]*\) .*/\1/p' | sort | tr '\n' ' ')
[[ $commands == *'cancel'*'start'* ]] || fail "the commands are: $commands"
wants 'sbxctl ' "${commands% }"
wants 'sbxctl --json st' 'start stats stdin'
wants 'sbxctl --socket re st' 'start stats stdin'
for command in $commands; do
    all=$(options_of "$ctl" "$command")
    wants "sbxctl $command -" "${all% }"
done
wants 'sbxctl start --sandbox-net' '--sandbox-network'
wants 'sbxctl start --sandbox-network ' 'host none'
wants 'sbxctl start --rlimit no' 'nofile='
wants 'sbxctl start --sandbox-rlimit no' 'nofile='
wants 'sbxctl start --when-full=' 'drop pause'
wants 'sbxctl start --chdir su' 'sub'
wants 'sbxctl start -s TE' 'TERM'
wants 'sbxctl start --wait gi' 'offset:3:gi'
wants 'sbxctl start -w 5 -- git pu' 'offset:5:git'
wants 'sbxctl logs --stderr --of' '--offset'
wants 'sbxctl cancel --wait --js' ''
wants 'sbxctl signal --js' '--json'
wants 'sbxctl signal x TE' 'TERM'
wants 'sbxctl signal x' ''
wants 'sbxctl signal x TERM HU' ''
wants 'sbxctl show re' ''
wants 'sbxctl nosuch --js' ''

completes=_sbx_watch
wants 'sbx-watch -w 5 -- sbx-run --ne' 'offset:4:sbx-run'
wants 'sbx-watch --wa' '--wall --warn'

exit "$status"
