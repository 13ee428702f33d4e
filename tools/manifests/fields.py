"""Writes the published fields of the kinds in our manifests: fields.py CRDS

CRDS is the folder with the schemas of custom resources (see schemas.py). Prints the content of
tests/fixtures/manifest-fields.json, with which the manifests are checked where the schemas are not at hand. Wherever one of our
manifests has an object, all published fields of that object are listed. The content of fields that no manifest uses is left
out. `make manifest-fields` calls it.
"""

import glob
import json
import pathlib
import sys

import schemas

ROOT = pathlib.Path(__file__).parents[2]
MANIFESTS = ["envoy/*.yaml", "deploy/kubernetes/**/*.yaml"]
FORMAT = ("Written by make manifest-fields. The published fields of the kinds in our manifests. A trailing ! marks a required "
          "field, * stands for any name, a | b for one of these words, [x] for a list, and any for a value that is not checked.")


def fields(schema, values):
    """Returns the fields of a schema, with the content of those that are in one of the values."""
    schema = schemas.resolved(schema)
    kinds = schema.get("type", [])
    kinds = {kind for kind in ([kinds] if isinstance(kinds, str) else kinds) if kind != "null"}
    words = schema.get("enum") or next((part["enum"] for part in schema.get("allOf", []) if "enum" in part), None)
    if words:
        return " | ".join(str(word) for word in words)
    if len(kinds) != 1 or not values:
        return "any"
    kind = kinds.pop()
    if kind == "object":
        return of_object(schema, [value for value in values if isinstance(value, dict)])
    if kind == "array":
        return [fields(schema["items"], [item for value in values if isinstance(value, list) for item in value])]
    return kind


def of_object(schema, values):
    others = schema.get("additionalProperties")
    if isinstance(others, dict):
        return {"*": fields(others, [member for value in values for member in value.values()])}
    if "properties" not in schema or schema.get("x-kubernetes-preserve-unknown-fields"):
        return "any"
    required = schema.get("required", [])
    found = {}
    for name, part in sorted(schema["properties"].items()):
        if name != "status":
            content = fields(part, [value[name] for value in values if value.get(name) is not None])
            found[name + ("!" if name in required else "")] = content
    return found


def main(crds):
    files = sorted(file for pattern in MANIFESTS for file in glob.glob(str(ROOT / pattern), recursive=True))
    by_kind = {}
    for one in (one for file in files for one in schemas.objects(file)):
        by_kind.setdefault((one["apiVersion"], one["kind"]), []).append(one)
    known = {"": FORMAT}
    for (api_version, kind), values in sorted(by_kind.items()):
        schema = schemas.custom(crds, api_version, kind) or schemas.plain(api_version, kind)
        if schema:
            parts = {name: part for name, part in schema["properties"].items() if name not in schemas.OF_EVERY_OBJECT}
            known[f"{api_version} {kind}"] = fields({**schema, "properties": parts}, values)
    print(json.dumps(known, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
