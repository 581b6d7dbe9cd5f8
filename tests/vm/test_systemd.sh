#!/bin/bash
# test_systemd.sh SBX-WATCH HELPERS - what is promised where systemd delegates a scope: run in a
# guest as root, by tests/vm/systemd; what it does, it does as the ordinary user tester.
#
# In `systemd-run --user --scope -p Delegate=yes` the kernel holds the limits, and at the end
# no group is left and everything above the scope is as it was; without the scope, a limit
# that the kernel is to hold is refused with this remedy.
set -u
watch=$1
helpers=$2
manager=/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service
failures=0
checks=0
report=''
status=0

tester() {
    setpriv --reuid 1000 --regid 1000 --init-groups env HOME=/home/tester USER=tester LOGNAME=tester \
        XDG_RUNTIME_DIR=/run/user/1000 DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1000/bus "$@"
}

# watch_in_scope ARG...: sets `report` (text) and `status`.
watch_in_scope() {
    tester systemd-run --user --scope --quiet -p Delegate=yes -- \
        "$watch" --report /home/tester/report "$@" >/tmp/output 2>&1
    status=$?
    report=$(cat /home/tester/report 2>/dev/null)
    rm -f /home/tester/report
}

failed() {
    echo "FAILED: $*"
    echo "    status $status, report $report"
    sed 's/^/    | /' /tmp/output
    failures=$((failures + 1))
}

expect_status() {
    checks=$((checks + 1))
    [ "$status" -eq "$1" ] || failed "$2: status $1 is expected"
}

# expect TEXT WHAT: in the report.
expect() {
    checks=$((checks + 1))
    [[ $report == *"$1"* ]] || failed "$2: $1 is expected"
}

# Groups of the user's manager, but for scopes that systemd is about to remove; with what each has
# on for its children.
snapshot() {
    find "$manager" -type d ! -path '*/run-*.scope' ! -path '*/run-*.scope/*' | sort | while IFS= read -r group; do
        echo "$group: $(cat "$group/cgroup.subtree_control")"
    done
}

# pids_in_scopes NAME: of the processes of that name.
pids_in_scopes() {
    find "$manager" -path '*/run-*.scope*' -name cgroup.procs -exec cat {} + 2>/dev/null | while IFS= read -r pid; do
        [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != "$1" ] || echo "$pid"
    done
}

# Waits until all groups of runs and their scopes are gone.
expect_nothing_left() {
    checks=$((checks + 1))
    for _ in $(seq 100); do
        left=$(find /sys/fs/cgroup -type d \( -name 'sbx-*' -o -name 'run-*.scope' \))
        [ -n "$left" ] || break
        sleep 0.1
    done
    [ -z "$left" ] || failed "$1: groups are left: $left"
    snapshot >/tmp/after
    cmp -s /tmp/before /tmp/after || failed "$1: changed: $(diff /tmp/before /tmp/after)"
}

for _ in $(seq 100); do
    tester systemctl --user is-system-running --quiet 2>/dev/null && break
    sleep 0.1
done
# The first scope makes app.slice.
tester systemd-run --user --scope --quiet -p Delegate=yes -- true
snapshot >/tmp/before

watch_in_scope --require kernel-limits --memory 64M -- "$helpers/spike" 300 1000 0
expect_status 124 'over the memory limit'
expect '"reason":"memory"' 'over the memory limit'
expect '"memory_method":"cgroup2"' 'over the memory limit'
expect '"tracking":"cgroup2"' 'over the memory limit'
expect '"kill":"cgroup.kill"' 'over the memory limit'
expect '"proof":"group-empty"' 'over the memory limit'
expect_nothing_left 'over the memory limit'

watch_in_scope --require kernel-limits --memory 64M --threads 20 -- sh -c 'exit 7'
expect_status 7 'within limits'
expect '"outcome":"exited"' 'within limits'
expect '"armed":{' 'within limits'
expect_nothing_left 'within limits'

watch_in_scope --require kernel-limits --memory 64M -- sh -c "setsid $helpers/hopper >/dev/null 2>&1 & exit 0"
expect '"proof":"group-empty"' 'a stray'
expect_nothing_left 'a stray'

# Guard and monitor killed while a command runs: systemd still has the scope; the next run is none the worse.
tester systemd-run --user --scope --quiet -p Delegate=yes -- "$watch" --memory 64M -- sleep 3 >/tmp/output 2>&1 &
scope=$!
for _ in $(seq 100); do
    [ -z "$(pids_in_scopes sleep)" ] || break
    sleep 0.05
done
killed=$(pids_in_scopes sbx-watch; pids_in_scopes sbx-monitor)
checks=$((checks + 1))
[ "$(wc -w <<<"$killed")" -ge 2 ] || failed "guard and monitor are expected, not: $killed"
# Words on purpose.
# shellcheck disable=SC2086
kill -KILL $killed
wait $scope
expect_nothing_left 'guard and monitor killed'

# Not delegated: in a group of root's.
tester "$watch" --report /home/tester/report --require kernel-limits --memory 64M -- true >/tmp/output 2>&1
status=$?
report=$(cat /home/tester/report)
expect_status 125 'without a scope'
expect 'systemd-run --user --scope' 'without a scope'

echo "$checks checks, $failures failures"
[ $failures -eq 0 ]
