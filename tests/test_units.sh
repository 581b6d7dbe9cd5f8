#!/bin/sh
# test_units.sh UNITS PROGRAM - the units of sbxd that were made in the directory UNITS, for
# both kinds of manager: systemd understands them, and they say what keeps executions alive.
# PROGRAM takes the place of what is not installed. Without systemd-analyze they are only
# read.
set -u
units=$1
program=$2
scratch=$(mktemp -d "${TMPDIR:-/tmp}/sbx-units.XXXXXX") || exit 1
trap 'rm -rf -- "$scratch"' EXIT
failed=0

complain() {
    echo "$*"
    failed=1
}

# says FILE LINE: the unit has exactly this line.
says() {
    grep -qxF -- "$2" "$1" || complain "$1 lacks: $2"
}

# faults SERVICE: what systemd has to say about it, but for the key that is newer than Debian 12.
faults() {
    systemd-analyze verify --man=no "$1" 2>&1 | grep -v "Unknown key.* 'DelegateSubgroup'"
}

# check MANAGER: its pair of units.
check() {
    service=$scratch/$1/sbxd.service
    mkdir "$scratch/$1" && cp "$units/$1/sbxd.service" "$units/$1/sbxd.socket" "$scratch/$1" || exit 1
    for line in KillMode=process Delegate=yes Restart=on-failure UMask=0077 Requires=sbxd.socket; do
        says "$service" "$line"
    done
    says "$scratch/$1/sbxd.socket" 'ListenStream=%t/sbx/sbxd.sock'
    says "$scratch/$1/sbxd.socket" 'SocketMode=0600'
    grep -q '^ExecStart=/.*/sbxd\( \|$\)' "$service" || complain "$service starts no sbxd"
    if grep -n '@\|^RuntimeDirectory' "$scratch/$1/"*; then
        complain "$1: see above"
    fi
    command -v systemd-analyze >/dev/null 2>&1 || return 0
    sed -i "s,^ExecStart=[^ ]*,ExecStart=$program," "$service" || exit 1
    if faults "$service"; then
        complain "$1: see above"
    fi
    sed 's/^KillMode=.*/KillMode=nobody/' "$service" >"$scratch/$1/wrong.service"
    faults "$scratch/$1/wrong.service" | grep -q nobody || complain "$1: a fault is overlooked"
}

check system
check user
says "$scratch/system/sbxd.service" StateDirectory=sbx
says "$scratch/system/sbxd.service" StateDirectoryMode=0700
if grep -n '^StateDirectory' "$scratch/user/sbxd.service"; then
    complain "user: see above"
fi
exit "$failed"
