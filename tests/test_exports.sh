#!/bin/sh
# test_exports.sh NM HEADER SHARED STATIC SUPERVISOR-SHARED SUPERVISOR-STATIC - what the
# libraries show to the outside.
#
# The dynamic names of both shared libraries are exactly those that the public header
# declares SBX_PUBLIC: sbx_supervisor_*, sbx_client_* and sbx_reply_* in the one for
# executions, all others in libsbx; and every global name of ours, in the static libraries
# too, starts with sbx_. Compiles nothing. The second half wants each kind of difference
# noticed.
set -u
nm=$1
header=$2
shared=$3
static=$4
supervisor_shared=$5
supervisor_static=$6
scratch=$(mktemp -d "${TMPDIR:-/tmp}/sbx-exports.XXXXXX") || exit 1
trap 'rm -rf -- "$scratch"' EXIT

# declared HEADER: the names behind SBX_PUBLIC, sorted, one a line.
declared() {
    awk '
        /^[ \t]*#/ { next }
        /^SBX_PUBLIC / { text = ""; open = 1 }
        open { text = text " " $0 }
        open && /;/ {
            open = 0
            sub(/;.*/, "", text)
            sub(/ *[[(].*/, "", text)
            sub(/.*[ *]/, "", text)
            print text
        }' "$1" | sort
}

# A sanitizer adds names of its own to what it instruments.
defined() {
    "$nm" "$@" 2>/dev/null | awk 'NF >= 3 { print $3 }' |
        grep -v -E '^(__odr_asan|__asan_|__ubsan_|__sanitizer_|__start___|__stop___)' | sort
}

# part LIBRARY: of the declared names, those that are that library's.
part() {
    case $1 in
    supervisor) grep -E '^sbx_(supervisor|client|reply)_' ;;
    *) grep -v -E '^sbx_(supervisor|client|reply)_' ;;
    esac
}

# compare LIBRARY HEADER NAMES: fails and shows the difference unless they are the same, are
# at least one, and all start with sbx_.
compare() {
    declared "$2" | part "$1" >"$scratch/declared"
    shift
    [ -s "$scratch/declared" ] || { echo "nothing is declared in $1"; return 1; }
    diff -u "$scratch/declared" "$2" || return 1
    if grep -v '^sbx_' "$2"; then
        echo "the above do not start with sbx_"
        return 1
    fi
}

status=0
defined -D --defined-only "$shared" >"$scratch/exported"
compare sbx "$header" "$scratch/exported" || status=1
defined -D --defined-only "$supervisor_shared" >"$scratch/exported-supervisor"
compare supervisor "$header" "$scratch/exported-supervisor" || status=1
for library in "$static" "$supervisor_static"; do
    defined -g --defined-only "$library" >"$scratch/global"
    [ -s "$scratch/global" ] || { echo "no name in $library"; status=1; }
    if grep -v '^sbx_' "$scratch/global"; then
        echo "the above are global in $library and do not start with sbx_"
        status=1
    fi
done

# noticed WHAT HEADER NAMES [LIBRARY]
noticed() {
    if compare "${4-sbx}" "$2" "$3" >"$scratch/output"; then
        echo "not noticed: $1"
        status=1
    fi
}

cp -- "$header" "$scratch/more.h"
printf 'SBX_PUBLIC const char *const *sbx_declared_only(int first,\n    int second);\n' >>"$scratch/more.h"
noticed "a declared name that is not exported" "$scratch/more.h" "$scratch/exported"
{ cat -- "$scratch/exported"; echo sbx_zz_exported_only; } >"$scratch/more"
noticed "an exported name that is not declared" "$header" "$scratch/more"
printf 'SBX_PUBLIC int other_name(void);\n' >"$scratch/other.h"
echo other_name >"$scratch/other"
printf 'SBX_PUBLIC void sbx_reply_declared_only(void);\n' >>"$scratch/more.h"
noticed "a declared name that the supervisor's library lacks" "$scratch/more.h" \
    "$scratch/exported-supervisor" supervisor
{ cat -- "$scratch/exported-supervisor"; echo sbx_version; } | sort >"$scratch/more"
noticed "a name of libsbx in the supervisor's library" "$header" "$scratch/more" supervisor
{ cat -- "$scratch/exported"; echo sbx_client_new; } | sort >"$scratch/more"
noticed "a name of the supervisor's library in libsbx" "$header" "$scratch/more"
noticed "a name without the prefix" "$scratch/other.h" "$scratch/other"
: >"$scratch/nothing"
noticed "a header that declares nothing" "$scratch/nothing" "$scratch/nothing"

exit "$status"
