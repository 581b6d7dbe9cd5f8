#!/bin/sh
# test_request_schema.sh REQUEST-PROBE - docs/request.schema.json has the keys that the
# program knows, no more and no less; and of the sample requests in fuzz/corpus/request it
# accepts those that the program accepts (good-*), and refuses bad-* as the program does.
# What a schema does not see (odd-*) the program alone refuses. Skipped (77) without
# python3-jsonschema.
set -u
export LC_ALL=C
probe=$1
source=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P) || exit 1
scratch=$(mktemp -d "${TMPDIR:-/tmp}/sbx-requests.XXXXXX") || exit 1
trap 'rm -rf -- "$scratch"' EXIT

"$probe" keys >"$scratch/keys" || exit 1
"$probe" "$source"/fuzz/corpus/request/* >"$scratch/answers" || exit 1

/usr/bin/python3 - "$source" "$scratch" <<'END'
import json
import os
import sys

try:
    import jsonschema
except ImportError:
    print("skipped: python3-jsonschema is not installed")
    sys.exit(77)

source, scratch = sys.argv[1:]
bad = 0


def complain(text):
    global bad
    bad = 1
    print(text)


def keys_of(schema, whole, prefix=""):
    """Every key below a schema, with what it stands in."""
    name = schema.get("$ref", "").removeprefix("#/$defs/")
    properties = (whole["$defs"][name] if name else schema).get("properties", {})
    for key, value in properties.items():
        yield prefix + key
        yield from keys_of(value, whole, f"{prefix}{key}.")


with open(f"{source}/docs/request.schema.json", encoding="utf-8") as file:
    schema = json.load(file)
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)

told = sorted(keys_of(schema, schema))
with open(f"{scratch}/keys", encoding="ascii") as file:
    known = sorted(file.read().split())
for key in set(told) ^ set(known):
    complain(f"{key}: " + ("unknown to the program" if key in told else "not in the schema"))
if len(set(known)) != len(known) or len(known) < 60:
    complain("the program's keys are not what was expected")

names = sorted(os.listdir(f"{source}/fuzz/corpus/request"))
with open(f"{scratch}/answers", encoding="utf-8") as file:
    answers = file.read().splitlines()
if len(names) != len(answers):
    complain(f"{len(names)} requests, {len(answers)} answers")
for name, answer in zip(names, answers):
    kind = name.split("-")[0]
    if (answer == "ok") != (kind == "good"):
        complain(f"{name}: the program says {answer}")
    if kind == "odd":
        continue
    with open(f"{source}/fuzz/corpus/request/{name}", encoding="utf-8") as file:
        errors = [error.message for error in validator.iter_errors(json.load(file))]
    if bool(errors) != (kind == "bad"):
        complain(f"{name}: the schema says {errors}")
if {name.split("-")[0] for name in names} != {"good", "bad", "odd"}:
    complain("samples of one kind are missing")
sys.exit(bad)
END
