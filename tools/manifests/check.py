"""Checks manifests against the published schemas: check.py CRDS FILE...

CRDS is the folder with the schemas of custom resources (see schemas.py). Unknown fields are refused, and so is whatever an API
server would refuse because of a rule (CEL) of a custom resource. Prints a report as JSON, and exits with 1 if it contains a
problem. Kinds without a schema, and rules that cannot be evaluated here, are listed and are not problems.
"""

import json
import pathlib
import sys
import urllib.parse

import celpy
import celpy.adapter
import celpy.celtypes as cel
import jsonschema
import kubernetes_validate

import schemas

# A field with one of these names is written with two underscores on each side in a rule.
RESERVED = {"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let",
            "loop", "package", "namespace", "return", "var", "void", "while"}


def is_url(text):
    parts = urllib.parse.urlsplit(str(text))
    return cel.BoolType(bool(parts.scheme) and bool(parts.netloc or parts.path))


# The functions that Kubernetes adds to CEL, as far as the rules of our kinds use them.
FUNCTIONS = {
    "isURL": is_url,
    "url": lambda text: cel.StringType(text),
    "getScheme": lambda url: cel.StringType(urllib.parse.urlsplit(str(url)).scheme),
    "split": lambda text, by: cel.ListType([cel.StringType(part) for part in str(text).split(str(by))]),
    "substring": lambda text, *ends: cel.StringType(str(text)[slice(*(int(end) for end in (*ends, len(text))[:2]))]),
    "upperAscii": lambda text: cel.StringType(str(text).upper()),
}


def strict(schema):
    """Returns the schema with every unknown field refused, as an API server does with strict validation."""
    schema = dict(schema)
    if "properties" in schema:
        schema["properties"] = {name: strict(part) for name, part in schema["properties"].items()}
        if not schema.get("x-kubernetes-preserve-unknown-fields") and schema["properties"].keys() != {"metadata"}:
            schema.setdefault("additionalProperties", False)
    if isinstance(schema.get("additionalProperties"), dict):
        schema["additionalProperties"] = strict(schema["additionalProperties"])
    if "items" in schema:
        schema["items"] = strict(schema["items"])
    if schema.get("nullable") and "type" in schema:
        schema["type"] = [schema["type"], "null"]
    return schema


def with_defaults(value, schema):
    """Returns the value with the defaults of the schema, which an API server fills in before it evaluates the rules."""
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        defaults = {name: part["default"] for name, part in properties.items() if "default" in part}
        others = schema.get("additionalProperties")
        others = others if isinstance(others, dict) else {}
        return {name: with_defaults(part, properties.get(name, others)) for name, part in {**defaults, **value}.items()}
    if isinstance(value, list):
        return [with_defaults(item, schema.get("items", {})) for item in value]
    return value


def rules(value, schema, path):
    """Yields every rule with the value that it is about."""
    for rule in schema.get("x-kubernetes-validations", []):
        yield path, value, rule
    if isinstance(value, dict):
        others = schema.get("additionalProperties")
        for name, member in value.items():
            part = schema.get("properties", {}).get(name, others)
            if isinstance(part, dict):
                yield from rules(member, part, f"{path}.{name}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from rules(item, schema.get("items", {}), f"{path}[{index}]")


def escaped(value):
    """Returns the value with the names of fields as rules write them."""
    if isinstance(value, dict):
        return {f"__{name}__" if name in RESERVED else name: escaped(member) for name, member in value.items()}
    return [escaped(item) for item in value] if isinstance(value, list) else value


def holds(rule, value):
    """Evaluates a rule."""
    environment = celpy.Environment()
    program = environment.program(environment.compile(rule), functions=FUNCTIONS)
    return bool(program.evaluate({"self": celpy.json_to_cel(escaped(value))}))


def check_custom(one, schema, report):
    validator = jsonschema.Draft202012Validator(strict(schema))
    for error in validator.iter_errors(one):
        yield f"{one['kind']}{error.json_path[1:]}: {error.message}"
    for path, value, rule in rules(with_defaults(one, schema), schema, one["kind"]):
        # A rule about oldSelf is about a change of an object that exists.
        if "oldSelf" in rule["rule"]:
            continue
        try:
            held = holds(rule["rule"], value)
        except (celpy.CELParseError, celpy.CELEvalError, ValueError, TypeError) as error:
            report["not_evaluated"].append(f"{path}: {rule['rule']}: {error}")
            continue
        report["rules"] += 1
        if not held:
            yield f"{path}: {rule.get('message', rule['rule'])}"


def check_plain(one):
    try:
        kubernetes_validate.validate(one, schemas.KUBERNETES, strict=True)
    except kubernetes_validate.ValidationError as error:
        yield f"{one['kind']}.{'.'.join(str(part) for part in error.absolute_path)}: {error.message}"


def main(crds, *files):
    report = {"objects": 0, "rules": 0, "problems": [], "not_evaluated": [], "no_schema": []}
    for file in files:
        for one in schemas.objects(file):
            name = pathlib.Path(file).name
            schema = schemas.custom(crds, one["apiVersion"], one["kind"])
            if schema:
                problems = check_custom(one, schema, report)
            elif schemas.plain(one["apiVersion"], one["kind"]):
                problems = check_plain(one)
            else:
                report["no_schema"].append(f"{one['apiVersion']} {one['kind']}")
                continue
            report["objects"] += 1
            report["problems"] += [f"{name}: {problem}" for problem in problems]
    print(json.dumps(report, indent=2))
    return 1 if report["problems"] else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
