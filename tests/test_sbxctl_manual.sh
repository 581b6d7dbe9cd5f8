#!/bin/sh
# test_sbxctl_manual.sh SBXCTL SOURCE-TREE - the manual page of sbxctl tells of each command
# and each option that `sbxctl --help` and the help of a command name, and names no option
# that none of them has.
set -u
sbxctl=$1
page=$2/docs/sbxctl.1.scd
failed=0

complain() {
    echo "$*"
    failed=1
}

# Long names of options at the beginning of lines.
options_of() {
    sed -n 's/^ [- ,a-zA-Z]*--\([a-z-]*\)\( .*\)\{0,1\}$/\1/p'
}

# Of `start`, those of its own: the others are the tables of sbx-watch and sbx-run.
own_part() {
    sed -n '/^\(Execution\|Command\):/,/^$/p'
}

known=' '
for option in $("$sbxctl" --help | options_of); do
    known="$known$option "
done
commands=$("$sbxctl" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
for command in $commands; do
    grep -q "^\*$command\*\|, \*$command\*" "$page" || complain "the manual lacks the command $command"
    for option in $("$sbxctl" "$command" --help | own_part | options_of); do
        known="$known$option "
    done
done
for option in $known; do
    grep -qF -- "*--$option*" "$page" || complain "the manual lacks --$option"
done

# Also those that a request can have.
for option in $("$sbxctl" start --help | options_of); do
    known="$known$option "
done
named=$(grep -o '\*--[a-z-]*' "$page" | sed 's/^\*--//' | sort -u)
for option in $named; do
    case "$known" in
    *" $option "*) ;;
    *)
        case $option in
        sandbox-*) ;;
        *) complain "the manual names --$option, which is none" ;;
        esac
        ;;
    esac
done
# What was compared is no list of nothing.
for list in "$commands" "$known" "$named"; do
    [ "$(echo "$list" | wc -w)" -ge 10 ] || complain "nothing is compared: $list"
done
exit "$failed"
