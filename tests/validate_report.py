#!/usr/bin/python3
"""Checks report files against docs/report.schema.json and what a schema cannot say.

usage: validate_report.py [--schema FILE] [--lines] FILE...     ("-" is standard input)

A schema may refer to those that lie beside it, by their $id. With --lines each line of a file is a report of its own,
FILE:LINE in what is printed.

Prints one line for each fault, "FILE: KEY/KEY: what is wrong", and exits with 1 when there was one. Exits with 77 when
the jsonschema module (Debian: python3-jsonschema) is missing. A report is one JSON object on one line, ended by a line
feed, UTF-8, without repeated keys.
"""
import json
import os
import sys

SKIPPED = 77
HERE = os.path.dirname(os.path.abspath(__file__))


def without_repeats(pairs):
    keys = [key for key, _ in pairs]
    for key in keys:
        if keys.count(key) > 1:
            raise ValueError(f"key {key!r} is repeated")
    return dict(pairs)


def refuse_constant(text):
    raise ValueError(f"{text} is not JSON")


def text_faults(data):
    if not data.endswith(b"\n"):
        yield "does not end with a line feed"
    if data.count(b"\n") > 1:
        yield "is more than one line"


def count_faults(report):
    """A list never holds more than its count; the full list and its count agree."""
    termination = report.get("termination", {})
    for holder, key, cap in ((termination, "strays", 64), (termination, "survivors", 64), (report, "warnings", 16)):
        entries, count = holder.get(key), holder.get(key + "_count")
        if isinstance(entries, list) and isinstance(count, int) and len(entries) != min(count, cap):
            yield f"{key}: {len(entries)} entries and {key}_count {count}"
    command, count = report.get("command"), report.get("command_count")
    if isinstance(command, list) and isinstance(count, int) and count <= len(command):
        yield f"command: {len(command)} arguments and command_count {count}"


def relation_faults(report):
    breach = report.get("breach", {})
    limit, observed = breach.get("limit"), breach.get("observed")
    if breach.get("reason") != "ceiling" and isinstance(limit, int) and isinstance(observed, int) and observed < limit:
        yield f"breach: observed {observed} is below the limit {limit}"
    started, finished = report.get("started_at"), report.get("finished_at")
    if started is None and finished is not None and "leader_pid" in report:
        yield "finished_at: without started_at"


def faults(validator, data):
    try:
        report = json.loads(data.decode("utf-8"), object_pairs_hook=without_repeats, parse_constant=refuse_constant)
    except ValueError as error:
        yield f"(text): {error}"
        return
    for fault in text_faults(data):
        yield f"(text): {fault}"
    errors = list(validator.iter_errors(report))
    for error in errors:
        path = "/".join(str(part) for part in error.absolute_path)
        yield f"{path or '(top)'}: {error.message[:300]!r}"
    if not errors:
        yield from count_faults(report)
        yield from relation_faults(report)


def reports_of(path, data, by_line):
    if not by_line:
        yield path, data
        return
    for number, line in enumerate(data.splitlines(keepends=True), 1):
        yield f"{path}:{number}", line


def rebased(part, bases):
    """A copy in which each reference that begins with one of these begins with what that stands for."""
    if isinstance(part, list):
        return [rebased(item, bases) for item in part]
    if not isinstance(part, dict):
        return part
    copy = {key: rebased(value, bases) for key, value in part.items() if key not in ("$id", "$schema")}
    for base, place in bases.items():
        if part.get("$ref", "").startswith(base):
            copy["$ref"] = place + part["$ref"][len(base):]
            break
    return copy


def bundle(schema, schema_path):
    """The schema with those inside that it refers to, from its directory: no version of the module looks for them."""
    directory = os.path.dirname(os.path.abspath(schema_path))
    text = json.dumps(schema)
    bases = {}
    others = {}
    for name in sorted(os.listdir(directory)):
        if name.endswith(".schema.json"):
            with open(os.path.join(directory, name), encoding="utf-8") as file:
                other = json.load(file)
            if json.dumps(other["$id"])[:-1] + "#" in text or json.dumps({"$ref": other["$id"]})[1:-1] in text:
                others[name] = other
                bases[other["$id"] + "#"] = "#/$defs/" + name
                bases[other["$id"]] = "#/$defs/" + name
    if not others:
        return schema
    whole = rebased(schema, bases)
    for name, other in others.items():
        whole.setdefault("$defs", {})[name] = rebased(other, {"#": "#/$defs/" + name, **bases})
    return whole


def main(arguments):
    schema_path = os.path.join(HERE, "..", "docs", "report.schema.json")
    if len(arguments) >= 2 and arguments[0] == "--schema":
        schema_path, arguments = arguments[1], arguments[2:]
    by_line = arguments[:1] == ["--lines"]
    arguments = arguments[1:] if by_line else arguments
    if not arguments or arguments[0].startswith("--"):
        sys.stderr.write(__doc__)
        return 2
    try:
        import jsonschema
    except ImportError:
        sys.stderr.write("SKIP: python3-jsonschema is not installed\n")
        return SKIPPED
    with open(schema_path, encoding="utf-8") as file:
        schema = json.load(file)
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(bundle(schema, schema_path))
    bad = 0
    for path in arguments:
        if path == "-":
            data = sys.stdin.buffer.read()
        else:
            with open(path, "rb") as file:
                data = file.read()
        for name, report in reports_of(path, data, by_line):
            for fault in faults(validator, report):
                bad = 1
                print(f"{name}: {fault}")
    return bad


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
