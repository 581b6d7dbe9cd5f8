#!/bin/sh
# test_reports_valid.sh FILE - the schema holds for every report that the tests have got.
#
# They have put each on a line of FILE; one validator reads them all. The second half wants
# a report that is broken on purpose noticed, among good ones and by its line.
set -u
reports=$1
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P) || exit 1
if ! /usr/bin/python3 -W ignore -c 'import jsonschema' 2>/dev/null; then
    echo "SKIP: python3-jsonschema is not installed"
    exit 77
fi
if [ ! -s "$reports" ]; then
    echo "SKIP: no test that gets reports has run"
    exit 77
fi
scratch=$(mktemp -d "${TMPDIR:-/tmp}/sbx-reports.XXXXXX") || exit 1
trap 'rm -rf -- "$scratch"' EXIT

status=0
/usr/bin/python3 -W ignore "$here/validate_report.py" --lines "$reports" || status=1
echo "$(wc -l <"$reports") reports"

{
    head -n 1 -- "$reports"
    head -n 1 -- "$reports" | sed 's/"schema":"sbx.report.1"/"schema":"other"/'
    echo '{}'
} >"$scratch/broken"
if /usr/bin/python3 -W ignore "$here/validate_report.py" --lines "$scratch/broken" >"$scratch/said"; then
    echo "a broken report is taken for a good one"
    status=1
fi
for line in 2 3; do
    grep -q "^$scratch/broken:$line: " "$scratch/said" || {
        echo "line $line is not named:"
        cat -- "$scratch/said"
        status=1
    }
done
if grep -q "^$scratch/broken:1: " "$scratch/said"; then
    echo "a good line is named"
    status=1
fi
exit "$status"
