#!/bin/sh
# test_header.sh INCLUDE - the public header is clean as C99, C11 and C++11, with every
# compiler that is there, by itself, included twice, and used.
#
# The second half wants a header that is not clean refused by each of them.
set -u
include=$1
scratch=$(mktemp -d "${TMPDIR:-/tmp}/sbx-header.XXXXXX") || exit 1
trap 'rm -rf -- "$scratch"' EXIT
status=0
dialects=''

cat >"$scratch/user.c" <<'END'
#include <sbx/sbx.h>
#include <sbx/sbx.h>
int main(void)
{
    struct sbx_error error;
    size_t count = 0;
    const struct sbx_option *options = sbx_options(&count);
    struct sbx_spec *spec = sbx_spec_new();
    struct sbx_run *run = NULL;
    struct sbx_progress progress;
    error.code = options == NULL ? 0 : (int)options[0].letter;
    if (sbx_spec_set(spec, "wall", "5s", &error) < 0) {
        error.stage = SBX_STAGE_OPTIONS;
    }
    if (sbx_run_start(spec, &run, &error) == 0 && sbx_run_next(run, &progress) == SBX_RUN_PROGRESS) {
        (void)sbx_run_cancel(run);
        error.code += (int)progress.threads + (sbx_run_result(run) != NULL);
    }
    sbx_run_free(run);
    error.code += sbx_run(spec, &run, &error);
    sbx_spec_free(spec);
    return error.message[0] + SBX_STATUS_BREACH + (sbx_version() == NULL);
}
END

mkdir -p -- "$scratch/bad/sbx"
cp -- "$include/sbx/sbx.h" "$scratch/bad/sbx/sbx.h"
# No standard has an array of no elements, and a pedant says so.
printf '#ifndef SBX_BAD\n#define SBX_BAD\nstruct sbx_empty { int number; int rest[0]; };\n#endif\n' \
    >>"$scratch/bad/sbx/sbx.h"

# compile INCLUDE COMPILER LANGUAGE STANDARD
compile() {
    "$2" -x "$3" -std="$4" -fsyntax-only -Wall -Wextra -pedantic -Werror -I "$1" "$scratch/user.c"
}

# clean COMPILER LANGUAGE STANDARD
clean() {
    # A compiler without this language (gcc without its C++ part) says nothing about ours.
    if ! : | "$1" -x "$2" -std="$3" -fsyntax-only - >/dev/null 2>&1; then
        return
    fi
    dialects="$dialects $3"
    if ! compile "$include" "$@"; then
        echo "not clean: $*"
        status=1
    fi
    if compile "$scratch/bad" "$@" 2>/dev/null; then
        echo "a bad header passes: $*"
        status=1
    fi
}

for compiler in cc gcc clang; do
    if command -v "$compiler" >/dev/null 2>&1; then
        clean "$compiler" c c99
        clean "$compiler" c c11
        clean "$compiler" c++ c++11
    fi
done
for dialect in c99 c11 c++11; do
    case " $dialects " in
    *" $dialect "*) ;;
    *)
        echo "no compiler here for $dialect"
        [ "$status" -ne 0 ] || status=77
        ;;
    esac
done
exit "$status"
