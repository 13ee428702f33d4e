"""The published schemas of Kubernetes resources.

Custom resources are read from a folder with one file for each kind, `GROUP_KIND.json`, which has the OpenAPI schema of each
version under `versions`. Plain Kubernetes objects are read from the package kubernetes-validate.
"""

import functools
import json
import pathlib

import kubernetes_validate
import yaml

KUBERNETES = "1.37"

# The API server knows these fields of every object. Published schemas often leave them out or do not say what they contain.
OF_EVERY_OBJECT = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}


def objects(path):
    """Returns the Kubernetes objects of a file. Kustomizations are not objects of the API server."""
    found = yaml.safe_load_all(pathlib.Path(path).read_text())
    return [one for one in found if one and "apiVersion" in one and not one["apiVersion"].startswith("kustomize.")]


def custom(crds, api_version, kind):
    """Returns the schema of a custom resource, or None if it is not published in the folder."""
    group, _, version = api_version.rpartition("/")
    file = pathlib.Path(crds) / f"{group}_{kind}.json"
    if not file.is_file():
        return None
    schema = json.loads(file.read_text())["versions"].get(version)
    if schema is None:
        raise SystemExit(f"{file} does not have the version {version}")
    schema["properties"] = {**schema["properties"], **OF_EVERY_OBJECT}
    schema["required"] = sorted({*schema.get("required", []), *OF_EVERY_OBJECT})
    return schema


@functools.cache
def _plain_file(name):
    root = pathlib.Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema" / f"v{KUBERNETES}.0-local"
    file = root / name
    return json.loads(file.read_text()) if file.is_file() else None


def plain(api_version, kind):
    """Returns the schema of a Kubernetes object, or None if Kubernetes does not have this kind."""
    group, _, version = api_version.rpartition("/")
    parts = [kind, *([group.split(".")[0]] if group else []), version]
    return _plain_file("-".join(parts).lower() + ".json")


def resolved(schema):
    """Follows the reference of a schema of a Kubernetes object to the part that it means."""
    while "$ref" in schema:
        _, _, name = schema["$ref"].partition("#/$defs/")
        schema = _plain_file("_definitions.json")["$defs"][name]
    return schema
