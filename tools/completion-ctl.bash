
# What follows is sbxctl's alone: its command says which options there are, and `start` has
# a command line behind them. Ids are not completed: that would ask the service.

_sbxctl_kind()
{
    kind=unknown
    if declare -F "_sbxctl_kind_$command" >/dev/null; then
        "_sbxctl_kind_$command" "$1"
    fi
}

# What is typed is an operand.
_sbxctl_operand()
{
    case $command in
    '') _sbxctl_reply '' < <(compgen -W "$_sbxctl_commands" -- "$typed") ;;
    start) _sbxctl_command "${start[last]}" ;;
    signal)
        if ((operands == 1)); then
            kind=signal
            _sbxctl_value "$typed" ''
        fi
        ;;
    esac
}

_sbxctl()
{
    local i last typed kind='' words='' before command='' operands=0 options
    local -a argument start
    COMPREPLY=()
    _sbxctl_split
    last=$((${#argument[@]} - 1))
    typed=${argument[last]}
    for ((i = 1; i < last; i++)); do
        case ${argument[i]} in
        --)
            [[ $command == start ]] || continue
            _sbxctl_command "${start[i + 1]}"
            return
            ;;
        --*=*) continue ;;
        --*)
            _sbxctl_kind "${argument[i]}"
            [[ $kind == none || $kind == unknown ]] && continue
            ;;
        -?*) _sbxctl_letters_want "${argument[i]}" || continue ;;
        *)
            if [[ $command == start ]]; then
                _sbxctl_command "${start[i]}"
                return
            fi
            [[ -z $command ]] || operands=$((operands + 1))
            command=${command:-${argument[i]}}
            continue
            ;;
        esac
        if ((++i == last)); then
            _sbxctl_value "$typed" ''
            return
        fi
    done
    case $typed in
    --*=*)
        _sbxctl_kind "${typed%%=*}"
        _sbxctl_value "${typed#*=}" "${typed%%=*}="
        ;;
    -*)
        options=_sbxctl_options_$command
        [[ $command =~ ^[a-z]*$ ]] || return
        _sbxctl_reply '' < <(compgen -W "${!options-}" -- "$typed")
        ;;
    *) _sbxctl_operand ;;
    esac
}
