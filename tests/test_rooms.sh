#!/bin/sh
# test_rooms.sh SOURCE - who may include whom.
#
# A room includes only itself and rooms to its left; tools see only each other,
# <sbx/sbx.h> and the system; ours are included by room and in quotes; libevent is known
# to the event loop and the service alone, libproc2 to the scan, libcgroup to cgroup/provision.c, jansson to requests,
# views and sbxctl, nettle to the fingerprint; examples are
# like tools, but for the loop of their own that one of them has. Reads the sources as text and compiles nothing. The
# second half plants one violation of each kind in a copy and wants it noticed.
set -u
source=$1
rooms='base cgroup reaper monitor sandbox supervisor tools'
scratch=$(mktemp -d "${TMPDIR:-/tmp}/sbx-rooms.XXXXXX") || exit 1
trap 'rm -rf -- "$scratch"' EXIT

# check_tree DIRECTORY: prints the violations and how many files were read; fails if there
# is a violation, or nothing in one of the rooms.
check_tree() {
    (
        cd -- "$1" || exit 1
        for folder in $rooms include examples; do
            [ ! -d "$folder" ] || find "$folder" -type f -name '*.[ch]'
        done
    ) >"$scratch/files"
    (cd -- "$1" && awk -v rooms="$rooms" '
        function bad(why) {
            print file ":" line ": " why ": " name
            violations++
        }
        function check(quote, name,    parts, target) {
            target = split(name, parts, "/") > 1 ? parts[1] : ""
            if (name ~ /^(event2\/|event\.h|ev[a-z]*\.h|event-)/ && file != "monitor/loop.c" &&
                file !~ /^supervisor\/service[a-z_]*\.[ch]$/ && file != "examples/event_loop.c") {
                bad("libevent outside monitor/loop.c")
            } else if (name ~ /^jansson/ &&
                       file !~ /^(supervisor\/(request|view)|tools\/sbxctl)[a-z_]*\.[ch]$/) {
                bad("jansson outside of requests, views and sbxctl")
            } else if (name ~ /^nettle\// && file != "supervisor/fingerprint.c") {
                bad("nettle outside supervisor/fingerprint.c")
            } else if (name ~ /^libproc2\// && file != "reaper/scan.c") {
                bad("libproc2 outside reaper/scan.c")
            } else if (name ~ /^libcgroup(\.h$|\/)/ && file != "cgroup/provision.c") {
                bad("libcgroup outside cgroup/provision.c")
            } else if (name ~ /(^|\/)\.\.?\//) {
                bad("relative path")
            } else if (target == "sbx") {
                if (quote != "<" || name != "sbx/sbx.h") {
                    bad("the public header is <sbx/sbx.h>")
                }
            } else if (room == "include") {
                if (quote != "<" || target in order) {
                    bad("the public header sees only the system")
                }
            } else if (target in order && quote == "<") {
                bad("ours are included in quotes")
            } else if (quote == "\"" && (room == "examples" || (room == "tools" && target != "tools"))) {
                bad("tools see only <sbx/sbx.h>")
            } else if (quote == "\"" && !(target in order)) {
                bad("ours are included by room")
            } else if (quote == "\"" && order[target] > order[room]) {
                bad("a room to the right")
            }
        }
        BEGIN {
            count = split(rooms, list, " ")
            for (i = 1; i <= count; i++) {
                order[list[i]] = i
            }
        }
        {
            file = $0
            room = file
            sub(/\/.*/, "", room)
            seen[room]++
            line = 0
            while ((got = (getline text < file)) > 0) {
                line++
                if (text !~ /^[ \t]*#[ \t]*include/) {
                    continue
                }
                name = text
                sub(/^[ \t]*#[ \t]*include[ \t]*/, "", name)
                quote = substr(name, 1, 1)
                if (quote != "<" && quote != "\"") {
                    bad("computed include")
                    continue
                }
                name = substr(name, 2)
                sub(/[>"].*/, "", name)
                check(quote, name)
            }
            if (got < 0) {
                bad("cannot be read")
            }
            close(file)
        }
        END {
            for (i = split("base reaper monitor sandbox supervisor tools include examples", must, " "); i > 0; i--) {
                if (!seen[must[i]]) {
                    print "no source in " must[i]
                    violations++
                }
            }
            print NR " files"
            exit violations > 0
        }' "$scratch/files")
}

status=0
check_tree "$source" || status=1

# noticed FILE LINE WHY: that line, alone in that file of an otherwise clean tree, is
# refused for that reason.
noticed() {
    tree=$scratch/tree
    rm -rf -- "$tree"
    for folder in base reaper monitor sandbox supervisor tools include/sbx examples; do
        mkdir -p -- "$tree/$folder"
        printf '#include <stdio.h>\n#include <sbx/sbx.h>\n' >"$tree/$folder/clean.c"
    done
    printf '#include <stddef.h>\n' >"$tree/include/sbx/clean.c"
    printf '#include "base/clean.h"\n#include "reaper/clean.h"\n' >"$tree/reaper/uses.c"
    printf '#include <event2/event.h>\n' >"$tree/monitor/loop.c"
    printf '#include "base/clean.h"\n#include "monitor/clean.h"\n' >"$tree/sandbox/uses.c"
    printf '#include <event2/http.h>\n#include "monitor/clean.h"\n' >"$tree/supervisor/service_uses.c"
    printf '#include <jansson.h>\n#include "sandbox/clean.h"\n' >"$tree/supervisor/request.c"
    printf '#include <jansson.h>\n' >"$tree/supervisor/view_uses.c"
    printf '#include <nettle/hmac.h>\n' >"$tree/supervisor/fingerprint.c"
    printf '#include <jansson.h>\n' >"$tree/tools/sbxctl_uses.c"
    printf '#include "tools/clean.h"\n' >"$tree/tools/uses.c"
    if ! check_tree "$tree" >"$scratch/output"; then
        echo "a clean tree is refused:"
        cat -- "$scratch/output"
        status=1
    fi
    mkdir -p -- "$tree/${1%/*}"
    printf '%s\n' "$2" >"$tree/$1"
    if check_tree "$tree" >"$scratch/output"; then
        echo "not noticed: $2 in $1"
        status=1
    elif ! grep -qF "$1:1: $3" "$scratch/output"; then
        echo "noticed for another reason: $2 in $1"
        cat -- "$scratch/output"
        status=1
    fi
}

noticed base/x.h '#include "reaper/tree.h"' 'a room to the right'
noticed reaper/x.c '#  include "monitor/spec.h"' 'a room to the right'
noticed reaper/x.c '#include <monitor/spec.h>' 'ours are included in quotes'
noticed reaper/x.c '#include "tree.h"' 'ours are included by room'
noticed reaper/x.c '#include "../monitor/spec.h"' 'relative path'
noticed monitor/x.c '#include "sbx/sbx.h"' 'the public header is'
noticed monitor/x.c '#include NAME' 'computed include'
noticed monitor/x.c '#include <event2/event.h>' 'libevent outside'
noticed monitor/deep/x.c '#include <event.h>' 'libevent outside'
noticed monitor/x.c '#include <libproc2/pids.h>' 'libproc2 outside'
noticed cgroup/x.c '#include <libcgroup.h>' 'libcgroup outside'
noticed monitor/x.c '#include <libcgroup/groups.h>' 'libcgroup outside'
noticed monitor/x.c '#include "sandbox/plan.h"' 'a room to the right'
noticed sandbox/x.c '#include "supervisor/store.h"' 'a room to the right'
noticed sandbox/x.c '#include <event2/event.h>' 'libevent outside'
noticed supervisor/x.c '#include <event2/event.h>' 'libevent outside'
noticed supervisor/view_x.c '#include <event2/event.h>' 'libevent outside'
noticed tools/service.c '#include <event2/event.h>' 'libevent outside'
noticed supervisor/x.c '#include <jansson.h>' 'jansson outside'
noticed supervisor/service_x.c '#include <jansson.h>' 'jansson outside'
noticed monitor/request.c '#include <jansson.h>' 'jansson outside'
noticed tools/sbxd.c '#include <jansson.h>' 'jansson outside'
noticed examples/x.c '#include <jansson.h>' 'jansson outside'
noticed supervisor/request_x.c '#include <nettle/hmac.h>' 'nettle outside'
noticed supervisor/x.c '#include "tools/clean.h"' 'a room to the right'
noticed sandbox/x.c '#include "plan.h"' 'ours are included by room'
noticed tools/sbx-run.c '#include "sandbox/plan.h"' 'tools see only'
noticed tools/x.c '#include "base/fd.h"' 'tools see only'
noticed tools/x.c '#include <base/fd.h>' 'ours are included in quotes'
noticed tools/x.c '#include "helper.h"' 'tools see only'
noticed examples/x.c '#include "base/fd.h"' 'tools see only'
noticed examples/x.c '#include "tools/clean.h"' 'tools see only'
noticed sandbox/x.c '#include "tools/clean.h"' 'a room to the right'
noticed examples/run.c '#include <event2/event.h>' 'libevent outside'
noticed include/sbx/x.h '#include "base/fd.h"' 'the public header sees only'

exit "$status"
