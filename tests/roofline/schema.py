"""Check the part of JSON Schema that docs/report.schema.json uses."""

import json
from pathlib import Path

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "report.schema.json").read_text(encoding="utf-8"))
TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "null": type(None),
}


def problems(value, schema=SCHEMA, place="$"):
    """Return the violations of the schema by a document, as sentences; an object with stated properties may
    have no others."""
    if "$ref" in schema:
        schema = SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]]
    if "enum" in schema:
        return [] if value in schema["enum"] else [f"{place}: {value!r} is none of {schema['enum']}"]
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if not any(
        isinstance(value, TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
        for kind in kinds
    ):
        return [f"{place}: {value!r:.40} is no {kinds}"]
    found = []
    if isinstance(value, dict):
        stated = schema.get("properties", {})
        found += [f"{place}: has no {name}" for name in schema.get("required", []) if name not in value]
        for name, item in value.items():
            inner = stated.get(name, schema.get("additionalProperties"))
            if inner is None and stated:
                found.append(f"{place}: has {name}, which the schema does not know")
            elif inner:
                found += problems(item, inner, f"{place}.{name}")
    elif isinstance(value, list) and "items" in schema:
        for k, item in enumerate(value):
            found += problems(item, schema["items"], f"{place}[{k}]")
    return found
