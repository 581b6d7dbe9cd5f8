#!/bin/sh
# test_plan_schema.sh SBX-RUN - every plan is one line of JSON that docs/plan.schema.json
# describes; plans that are changed in one place are not. Skipped (77) without
# python3-jsonschema or bubblewrap.
set -u
run=$1
source=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P) || exit 1
command -v bwrap >/dev/null 2>&1 || { echo "skipped: bubblewrap is not installed"; exit 77; }
scratch=$(mktemp -d "${TMPDIR:-/tmp}/sbx-plans.XXXXXX") || exit 1
trap 'rm -rf -- "$scratch"' EXIT
cd -- "$scratch" || exit 1
mkdir work work/hidden
cp /bin/true 'work/a "tool"' && cp /bin/true "$scratch/alone"
count=0

# plan OPTION...: adds a plan to the list.
plan() {
    count=$((count + 1))
    "$run" --plan "$@" >"$count.json" </dev/null || { echo "no plan: $*"; exit 1; }
    [ "$(wc -l <"$count.json")" -eq 1 ] || { echo "not one line: $*"; exit 1; }
}

plan -- true
plan --network none --proc -- sh -c 'printf "\t\\\377"'
plan --bind work --mask work/hidden --chdir work -- "./a \"tool\""
plan --ro-bind work:/job --no-default-masks --self-exe /job/hidden/../'a "tool"' -- /job/x
plan --ro-bind / -- true
plan --env HOME=/ --env NO_SUCH_VARIABLE --rlimit nofile=64 --rlimit core=0 --rlimit as=unlimited --rlimit cpu=5 -- true
plan --seccomp none --tmp-size 1M -- "$scratch/alone" ''
[ "$(id -u)" -ne 0 ] || plan --as-user 65534:65534 -- true

/usr/bin/python3 - "$source/docs/plan.schema.json" "$count" <<'END'
import copy
import json
import sys

try:
    import jsonschema
except ImportError:
    print("skipped: python3-jsonschema is not installed")
    sys.exit(77)


def without(plan, *path):
    plan = copy.deepcopy(plan)
    holder = plan
    for key in path[:-1]:
        holder = holder[key]
    del holder[path[-1]]
    return plan


def changed(plan, value, *path):
    plan = copy.deepcopy(plan)
    holder = plan
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return plan


with open(sys.argv[1], encoding="utf-8") as file:
    schema = json.load(file)
jsonschema.Draft202012Validator.check_schema(schema)
validator = jsonschema.Draft202012Validator(schema)
plans = []
bad = 0
for number in range(1, int(sys.argv[2]) + 1):
    with open(f"{number}.json", encoding="utf-8") as file:
        plans.append(json.load(file))
    for error in validator.iter_errors(plans[-1]):
        print(f"plan {number}: {'/'.join(map(str, error.absolute_path))}: {error.message[:200]}")
        bad = 1

first, second = plans[0], plans[1]
wrong = [without(first, key) for key in schema["required"]]
wrong += [without(first, "mounts", 0, key) for key in ("kind", "path", "why", "source")]
wrong += [changed(first, value, *path) for value, path in (
    ("sbx.plan/2", ("schema",)), (["NAME=value"], ("environment",)), (["user"], ("namespaces",)),
    ("some", ("network",)), ("none", ("network",)), ("bind", ("mounts", 0, "kind")),
    ("because", ("mounts", 0, "why")), ("usr", ("mounts", 0, "path")), (["CAP_KILL"], ("identity", "capabilities")),
    (False, ("identity", "no_new_privileges")), ("self-exe", ("proc",)), ("own", ("seccomp", "mode")),
    ({"nofile": {"soft": 1}}, ("ceilings",)), ({"files": {"soft": 1, "hard": 1}}, ("ceilings",)),
    (1, ("tmp_size_bytes",)), ("/x", ("self_exe",)))]
wrong.append(changed(second, "host", "network"))
for number, plan in enumerate(wrong):
    if validator.is_valid(plan):
        print(f"change {number} goes unnoticed")
        bad = 1
sys.exit(bad)
END
