
# What follows is written by hand, in tools/completion.bash (for sbx-watch; sbx-run has the
# same under its own name); the above is made from the table of options. Nothing is
# executed but bash's own compgen.

# Words as sbx-watch sees them, up to the cursor: bash cuts them at "=" and ":".
# Sets argument, start (where each begins in COMP_WORDS) and before (what of the last
# one bash takes for done).
_sbx_watch_split()
{
    local i word blanks last='' line=$COMP_LINE
    argument=() start=() before=''
    for ((i = 0; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        blanks=${line%%[![:blank:]]*}
        line=${line:${#blanks}}
        line=${line#"$word"}
        if ((i > 1)) && [[ -z $blanks && ($word =~ ^[=:@]+$ || $last =~ ^[=:@]+$) ]]; then
            before=${argument[-1]}
            [[ $word =~ ^[=:@]+$ ]] && before+=$word
            argument[-1]+=$word
        else
            argument+=("$word") start+=("$i") before=''
        fi
        last=$word
    done
}

# Whether the last of these letters wants the next word: -qw 5.
_sbx_watch_letters_want()
{
    local letters=${1#-}
    while [[ -n $letters ]]; do
        _sbx_watch_kind "-${letters:0:1}"
        letters=${letters:1}
        case $kind in
        none) ;;
        unknown) return 1 ;;
        *) [[ -z $letters ]]; return ;;
        esac
    done
    return 1
}

# The words that begin with what is typed, behind "head", which is in front of it in
# the same word; without what bash takes for done.
_sbx_watch_reply()
{
    local head=$1 i
    mapfile -t COMPREPLY
    for ((i = 0; i < ${#COMPREPLY[@]}; i++)); do
        COMPREPLY[i]=$head${COMPREPLY[i]}
        COMPREPLY[i]=${COMPREPLY[i]#"$before"}
    done
}

# The argument of an option, of which "value" is typed.
_sbx_watch_value()
{
    local value=$1 head=$2
    case $kind in
    words) _sbx_watch_reply "$head" < <(compgen -W "$words" -- "$value") ;;
    words-files)
        compopt -o filenames 2>/dev/null
        _sbx_watch_reply "$head" < <(compgen -W "$words" -- "$value"; compgen -f -- "$value")
        ;;
    signal)
        words=$_sbx_watch_signals
        [[ $value == SIG* ]] && words="SIG${words// / SIG}"
        _sbx_watch_reply "$head" < <(compgen -W "$words" -- "$value")
        ;;
    ceiling)
        compopt -o nospace 2>/dev/null
        _sbx_watch_reply "$head" < <(compgen -S = -W "$_sbx_watch_ceilings" -- "$value")
        ;;
    file | directory)
        compopt -o filenames 2>/dev/null
        _sbx_watch_reply "$head" < <(compgen -A "$kind" -- "$value")
        ;;
    user | export) _sbx_watch_reply "$head" < <(compgen -A "$kind" -- "$value") ;;
    esac
}

# The command, which is word $1 of COMP_WORDS, is completed as if it stood alone. A service
# has none.
_sbx_watch_command()
{
    [[ -z ${_sbx_watch_operands-} ]] || return
    local typed=${argument[-1]}
    if declare -F _comp_command_offset >/dev/null; then
        _comp_command_offset "$1"
    elif declare -F _command_offset >/dev/null; then
        _command_offset "$1"
    elif ((COMP_CWORD == $1)) && [[ $typed != */* ]]; then
        _sbx_watch_reply '' < <(compgen -c -- "$typed")
    else
        compopt -o filenames 2>/dev/null
        _sbx_watch_reply '' < <(compgen -f -- "$typed")
    fi
}

_sbx_watch()
{
    local i last typed kind='' words='' before
    local -a argument start
    COMPREPLY=()
    _sbx_watch_split
    last=$((${#argument[@]} - 1))
    typed=${argument[last]}
    for ((i = 1; i < last; i++)); do
        case ${argument[i]} in
        --)
            _sbx_watch_command "${start[i + 1]}"
            return
            ;;
        --*=*) continue ;;
        --*)
            _sbx_watch_kind "${argument[i]}"
            [[ $kind == none || $kind == unknown ]] && continue
            ;;
        -?*) _sbx_watch_letters_want "${argument[i]}" || continue ;;
        *)
            _sbx_watch_command "${start[i]}"
            return
            ;;
        esac
        if ((++i == last)); then
            _sbx_watch_value "$typed" ''
            return
        fi
    done
    case $typed in
    --*=*)
        _sbx_watch_kind "${typed%%=*}"
        _sbx_watch_value "${typed#*=}" "${typed%%=*}="
        ;;
    -*) _sbx_watch_reply '' < <(compgen -W "$_sbx_watch_options" -- "$typed") ;;
    *) _sbx_watch_command "${start[last]}" ;;
    esac
}

complete -F _sbx_watch sbx-watch
