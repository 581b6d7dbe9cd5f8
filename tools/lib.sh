# lib.sh - what tools/quickstart and tools/check have in common: saying things, finding and
# installing what is missing, configuring a build, and showing a report.
#
# Sourced by a POSIX sh, with `root` set to the source tree. Installs through apt-get only,
# and only as root or through sudo; where it cannot, it prints the line to run and fails.
# Uses no other network, and removes nothing but the cache of a build directory that
# belongs to another source tree.
# shellcheck shell=sh disable=SC2154,SC2034 # shared with the script that sources this file

# What a build and a run need: KIND WHAT PACKAGE, one a line (kinds: see present).
# libc6-dev by name, since gcc only recommends it.
build_needs='
command cc,gcc,clang gcc
header stdio.h libc6-dev
command cmake cmake
command ninja,make ninja-build
command pkg-config pkg-config
module libevent_core libevent-dev
module libproc2 libproc2-dev
module libcgroup libcgroup-dev
module jansson libjansson-dev
module nettle nettle-dev
command bwrap bubblewrap'

# What the tests and the other lanes of tools/check need on top of that.
check_needs='
command gcc gcc
command clang clang
command clang-format clang-format
command clang-tidy clang-tidy
package libclang-rt-14-dev libclang-rt-14-dev
command cppcheck cppcheck
command mandoc mandoc
command scdoc scdoc
command stress-ng stress-ng
command strace strace
command qemu-system-x86_64 qemu-system-x86
command cpio cpio
file /bin/busybox busybox-static
command modprobe kmod
command file file
file /usr/bin/time time
file /usr/bin/python3 python3
python jsonschema python3-jsonschema
command curl curl
module check check'

say() {
    printf '%s\n' "$*"
}

# An error or a hint: on stderr, so that it is seen when stdout goes elsewhere.
complain() {
    printf '%s\n' "$*" >&2
}

# Whether one of the commands of a list with commas is there; prints the first that is.
first_command() {
    for candidate in $(printf '%s' "$1" | tr ',' ' '); do
        if command -v "$candidate" >/dev/null 2>&1; then
            printf '%s\n' "$candidate"
            return 0
        fi
    done
    return 1
}

# present KIND WHAT: whether it is on this machine.
present() {
    case $1 in
    command) first_command "$2" >/dev/null ;;
    header) printf '#include <%s>\n' "$2" | "$(first_command cc,gcc,clang || echo false)" \
        -E -x c - >/dev/null 2>&1 ;;
    module) pkg-config --exists "$2" 2>/dev/null ;;
    file) [ -e "$2" ] ;;
    python) /usr/bin/python3 -c "import $2" >/dev/null 2>&1 ;;
    package) [ "$(dpkg-query -W -f '${db:Status-Status}' "$2" 2>/dev/null)" = installed ] ;;
    *) return 1 ;;
    esac
}

# Reads needs from stdin and prints the packages of those that are absent, on one line.
missing_packages() {
    while read -r kind what package; do
        if [ -n "$kind" ] && ! present "$kind" "$what"; then
            printf '%s ' "$package"
        fi
    done
}

# install_packages PACKAGE...: through apt-get, as root or with sudo. Fails after printing
# the line that an administrator would run, where that is not possible.
install_packages() {
    if [ $# -eq 0 ]; then
        return 0
    fi
    install_line="apt-get update && apt-get install -y --no-install-recommends $*"
    if ! command -v apt-get >/dev/null 2>&1; then
        complain "missing, and there is no apt-get here. On Debian 12 the line would be:"
        complain "    $install_line"
        return 1
    fi
    as_root=''
    if [ "$(id -u)" -ne 0 ]; then
        as_root=sudo
        if ! command -v sudo >/dev/null 2>&1 || { ! sudo -n true 2>/dev/null && [ ! -t 0 ]; }; then
            complain "missing, and only root can install it. Run as root:"
            complain "    $install_line"
            return 1
        fi
    fi
    say "installing: $*"
    if ! apt_log=$(mktemp "${TMPDIR:-/tmp}/sbx-apt.XXXXXX"); then
        return 1
    fi
    # A failed update (no network, say) need not matter: the lists of last time may do.
    run_apt update >"$apt_log" 2>&1 || complain "apt-get update failed; trying with the lists that are there"
    if run_apt install -y --no-install-recommends "$@" >>"$apt_log" 2>&1; then
        rm -f -- "$apt_log"
        return 0
    fi
    tail -n 20 -- "$apt_log" >&2
    rm -f -- "$apt_log"
    complain "apt-get failed. The line to run as root:"
    complain "    $install_line"
    return 1
}

run_apt() {
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@" </dev/null
}

# How many things to do at once.
jobs_count() {
    nproc 2>/dev/null || echo 2
}

# ninja where it is there, for build directories to come; one that exists keeps its own.
choose_generator() {
    if [ -z "${CMAKE_GENERATOR-}" ] && command -v ninja >/dev/null 2>&1; then
        export CMAKE_GENERATOR=Ninja
    fi
}

# configure DIRECTORY [CMAKE-ARGUMENT]...: a build directory of this tree. A cache that
# another source tree left there is of no use to anybody, and cmake would refuse it.
configure() {
    directory=$1
    shift
    cache=$directory/CMakeCache.txt
    if [ -f "$cache" ] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$cache"; then
        rm -rf -- "$cache" "$directory/CMakeFiles"
    fi
    choose_generator
    cmake -S "$root" -B "$directory" "$@"
}

# quietly COMMAND...: shows its output only if it fails.
quietly() {
    if ! quiet_log=$(mktemp "${TMPDIR:-/tmp}/sbx-log.XXXXXX"); then
        return 1
    fi
    "$@" >"$quiet_log" 2>&1 </dev/null
    quiet_status=$?
    if [ "$quiet_status" -ne 0 ]; then
        tail -n 60 -- "$quiet_log" >&2
        complain "failed with status $quiet_status: $*"
    fi
    rm -f -- "$quiet_log"
    return "$quiet_status"
}

# show_json FILE: one line of JSON, laid out for the eye: objects are opened two levels
# deep, lists stay on one line. Changes nothing but blanks between tokens.
show_json() {
    awk '
        function line_break() {
            printf "\n  "
            for (level = 0; level < depth; level++) {
                printf "  "
            }
        }
        { text = text $0 }
        END {
            printf "  "
            for (i = 1; i <= length(text); i++) {
                c = substr(text, i, 1)
                open = depth <= 2 && lists == 0
                if (in_string) {
                    if (c == "\\") {
                        c = c substr(text, ++i, 1)
                    } else if (c == "\"") {
                        in_string = 0
                    }
                } else if (c == "\"") {
                    in_string = 1
                } else if (c == "[") {
                    lists++
                } else if (c == "]") {
                    lists--
                } else if (c == "{") {
                    depth++
                    printf "%s", c
                    c = ""
                    if (depth <= 2 && lists == 0 && substr(text, i + 1, 1) != "}") {
                        line_break()
                    }
                } else if (c == "}") {
                    depth--
                    if (open && substr(text, i - 1, 1) != "{") {
                        line_break()
                    }
                } else if (c == ",") {
                    if (open) {
                        printf ","
                        line_break()
                        c = ""
                    } else {
                        c = ", "
                    }
                } else if (c == ":") {
                    c = ": "
                }
                printf "%s", c
            }
            printf "\n"
        }' "$1"
}

# json_value PATH FILE: the number or text at a path of at most two keys of a report on one
# line, such as usage.wall_us; prints "unknown" where it is absent. In a text every quote is
# escaped, so `"KEY":` is a key; the objects that are asked for hold a key once.
json_value() {
    found=$(awk -v path="$1" '
        # Where the object ends in which the text begins.
        function object_end(text) {
            depth = 1
            quoted = 0
            for (i = 1; i <= length(text) && depth > 0; i++) {
                c = substr(text, i, 1)
                if (c == "\\") {
                    i++
                } else if (c == "\"") {
                    quoted = !quoted
                } else if (!quoted) {
                    depth += (c == "{") - (c == "}")
                }
            }
            return i - 1
        }
        { text = text $0 }
        END {
            count = split(path, keys, ".")
            for (key = 1; key <= count; key++) {
                mark = "\"" keys[key] "\":"
                at = index(text, mark)
                if (at == 0) {
                    exit
                }
                text = substr(text, at + length(mark))
                if (key < count) {
                    text = substr(text, index(text, "{") + 1)
                    text = substr(text, 1, object_end(text))
                }
            }
            sub(/^ *"?/, "", text)
            sub(/[",}].*/, "", text)
            print text
        }' "$2" 2>/dev/null)
    printf '%s\n' "${found:-unknown}"
}

# in_mib BYTES: "123 MiB", or what was given if it is no number.
in_mib() {
    case $1 in
    '' | *[!0-9]*) printf '%s\n' "$1" ;;
    *) printf '%s MiB\n' "$(($1 / 1048576))" ;;
    esac
}

# in_seconds MICROSECONDS: "12.3 s", or what was given if it is no number.
in_seconds() {
    case $1 in
    '' | *[!0-9]*) printf '%s\n' "$1" ;;
    *) printf '%s.%s s\n' "$(($1 / 1000000))" "$(($1 / 100000 % 10))" ;;
    esac
}
