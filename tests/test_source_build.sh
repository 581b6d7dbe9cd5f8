#!/bin/sh
# test_source_build.sh SBX-WATCH TOOLS - a real C library, built from its Debian source
# package with make -j4, bare and under limits: the same status and the same library, its
# own tests pass, and the peaks are those that time(1) saw inside.
#
# Needs the network: apt with lists and a cache of its own in a temporary directory, so
# that the machine's sources stay as they are. What is not to be had is a skip (77).
set -u
watch=$1
package=zlib
. "$2/lib.sh"
scratch=$(mktemp -d "${TMPDIR:-/tmp}/sbx-source.XXXXXX") || exit 1
trap 'rm -rf -- "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

skip() {
    say "$*"
    exit 77
}

fail() {
    say "$*"
    exit 1
}

# apt-get with nothing of the machine's but its keys, and as whoever runs this.
private_apt() {
    apt-get -q -o Dir::Etc::sourcelist="$scratch/source.sources" -o Dir::Etc::sourceparts=- \
        -o Dir::State="$scratch/state" -o Dir::State::status=/dev/null -o Dir::Cache="$scratch/cache" \
        -o Dir::Log="$scratch" -o APT::Sandbox::User= -o Acquire::Retries=2 "$@" </dev/null
}

fetch() {
    for tool in apt-get tar make gcc cmp; do
        command -v "$tool" >/dev/null 2>&1 || skip "$tool is not installed"
    done
    [ -x /usr/bin/time ] || skip "time is not installed"
    mkdir -p -- "$scratch/state/lists/partial" "$scratch/cache/archives/partial" "$scratch/source" || exit 1
    # The suite of this machine.
    suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    keys=/usr/share/keyrings/debian-archive-keyring.gpg
    [ -n "$suite" ] && [ -f "$keys" ] || skip "this is no Debian with its keys"
    printf 'Types: deb-src\nURIs: http://deb.debian.org/debian\nSuites: %s\nComponents: main\nSigned-By: %s\n' \
        "$suite" "$keys" >"$scratch/source.sources"
    cd -- "$scratch/source" || exit 1
    private_apt update >"$scratch/apt.log" 2>&1 &&
        private_apt source --download-only "$package" >>"$scratch/apt.log" 2>&1 || {
        tail -n 5 -- "$scratch/apt.log"
        skip "the source of $package is not to be had"
    }
    archive=$(find . -name '*.orig.tar.*' ! -name '*.asc' | head -n 1)
    [ -n "$archive" ] || skip "no archive in the source of $package"
    say "building $archive"
    for copy in bare watched; do
        mkdir -- "$scratch/$copy" && tar -xf "$archive" -C "$scratch/$copy" --strip-components=1 || exit 1
        (cd -- "$scratch/$copy" && ./configure --static) >"$scratch/configure.log" 2>&1 ||
            fail "configure: $(tail -n 3 -- "$scratch/configure.log")"
    done
}

# supervised REPORT COMMAND...
supervised() {
    report=$1
    shift
    "$watch" --wall 4m --cpu 4m --memory 2G --processes 100 --rlimit nofile=1024 --report "$report" -- "$@"
}

# near NAME OURS THEIRS SLACK: within 10 % and the slack.
near() {
    say "$1: $2, time says $3"
    [ "$2" -ge "$(($3 * 9 / 10 - $4))" ] && [ "$2" -le "$(($3 * 11 / 10 + $4))" ] || fail "$1 is off"
}

fetch
(cd -- "$scratch/bare" && make -j4) >"$scratch/bare.log" 2>&1 || fail "the bare build failed"
cd -- "$scratch/watched" || exit 1
supervised "$scratch/report" /usr/bin/time -o "$scratch/timed" -f '%M %U %S' make -j4 >"$scratch/watched.log" 2>&1 ||
    fail "the build failed with status $?: $(tail -n 3 -- "$scratch/watched.log")"
cmp -- "$scratch/bare/libz.a" "$scratch/watched/libz.a" || fail "the libraries differ"
cmp -s -- "$scratch/bare/minigzip" "$scratch/watched/minigzip" || fail "the programs differ"

[ "$(json_value outcome "$scratch/report")" = exited ] || fail "the outcome is not exited"
[ "$(json_value termination.proof "$scratch/report")" != none ] || fail "it is not proved that nothing is left"
[ "$(json_value usage.cpu_complete "$scratch/report")" = true ] || fail "the CPU time is not complete"
peak=$(awk '{ print $1 * 1024 }' "$scratch/timed")
cpu=$(awk '{ printf "%d\n", ($2 + $3) * 1000000 }' "$scratch/timed")
near 'largest process, bytes' "$(json_value usage.process_memory_peak_bytes "$scratch/report")" "$peak" 0
near 'cpu, us' "$(json_value usage.cpu_us "$scratch/report")" "$cpu" 20000
processes=$(json_value usage.processes_peak "$scratch/report")
say "processes at one time: $processes"
[ "$processes" -ge 5 ] || fail "four compilers at a time are more than $processes processes"

supervised "$scratch/report" make test >"$scratch/test.log" 2>&1 ||
    fail "its tests failed: $(tail -n 3 -- "$scratch/test.log")"
grep -q 'zlib test OK' "$scratch/test.log" || fail "its tests have not run"

# An error of the compiler is an error of the run, in the status that make has for it.
echo 'no C' >>"$scratch/watched/inflate.c"
supervised "$scratch/report" make -j4 >"$scratch/broken.log" 2>&1
status=$?
[ "$status" -eq 2 ] || fail "the broken build ended with status $status"
say "a broken build ends with status 2"
