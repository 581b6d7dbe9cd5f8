#!/bin/sh
# The manual pages are well-formed: test_manual.sh SOURCE-TREE. mandoc's linter finds
# nothing in them, and does find a fault that is put in. Skipped (77) where scdoc or mandoc
# is missing.
set -eu
tree=$1
for tool in scdoc mandoc; do
    if ! command -v "$tool" >/dev/null; then
        echo "skipped: $tool is not installed"
        exit 77
    fi
done
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
failed=0
for source in "$tree"/docs/*.[1-9].scd; do
    page="$directory/$(basename "$source" .scd)"
    sh "$tree/docs/manual.sh" scdoc "$source" >"$page"
    if ! mandoc -T lint -W warning "$page"; then
        echo "$source: see above"
        failed=1
    fi
    printf '.SH\n.XX no such macro\n' >>"$page"
    if mandoc -T lint -W warning "$page" >/dev/null; then
        echo "$source: the linter overlooks a fault"
        failed=1
    fi
done
exit $failed
