"""Generate `foreask_client/models.py` from the API's description, or check that it is current.

`python clients/python/generate_models.py` writes the file. With `--check` it writes nothing, and exits with 1 if the
file differs.

The client must read the replies of newer and of older servers. The API's words, such as states, become `str`, because a
newer server may have more of them. A field that can be null, a list or an object has this empty value as its default,
because an older server may not return the field.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from textwrap import fill
from typing import Any

from api.app import create
from shared.settings import Settings

TARGET = Path(__file__).parent / "foreask_client" / "models.py"
Schema = dict[str, Any]

# The client's models. The schema of `Name` is `NameView` or `Name`, except for those in SCHEMAS.
MODELS = """
    ChunkCounts Usage Loss Document BatchLine UploadOffer Question ChunkContext Chunk ChunkInContext FoundChunk
    QueryMetadata Retrieval Citation Answer Feedback AuditEntry AcceptedQuestion AskedQuestion GapQuestion LoggedQuery
    LoggedPassage PassageSource NearestPassage Resolution Gap CollectionOptions OptionsInForce NumberedState Collection
    Build DeadLetter DeadReason DeadLettersResolved Erasure ErasedParts FoundDocument FoundRecords ErasurePreview
    Job Batch Key NewKey Budget TenantLimit RefusedEntry Sync Lookup Source Withheld EntryResult Webhook Delivery
    NewWebhook Me LabelledSetSize LabelledSet Evaluation AccessCheck VersionAccess AccessReview Reader Person
""".split()  # noqa: SIM905  a list would have a line for each

# A model with several schemas has the fields of all of them.
SCHEMAS = {
    "AccessCheck": ["AccessCheckReply"],
    "Answer": ["QueryReply"],
    "AuditEntry": ["AuditEntryView", "TenantAuditEntryView"],
    "BatchLine": ["BatchResult"],
    "DeadLetter": ["DeadLetterView", "DeadLetterHistory"],
    "Feedback": ["FeedbackReply"],
    "FoundChunk": ["RetrievedChunkView"],
    "Question": ["ChunkQuestion"],
    "Retrieval": ["RetrieveReply"],
    "Usage": ["QueryUsage", "IngestUsage"],
}

# Classes of which a model is a subclass. The class `Completeness` is written by hand.
SUPERCLASSES = {"Answer": "Completeness", "NewKey": "Key", "NewWebhook": "Webhook"}

# Values of fields that some servers do not return, if no empty value says so.
DEFAULTS = {
    "Answer.certain": True,
    "DeadLettersResolved.pages": 0,
    "DeadReason.pages": 0,
    "Document.outdated": False,
    "Document.readable_by": None,
    "Erasure.scope": "",
    "Document.pages": 0,
    "Document.pages_read": 0,
    "Document.pages_unread": 0,
    "Me.conversation_retention_days": 0,
    "Me.shared_answer_retention_days": 0,
    "QueryMetadata.question": "",
    "Usage.calls": 0,
}

# Fields that give access to something, and that are part of no repr.
SECRETS = {"NewKey.key", "NewWebhook.secret", "UploadOffer.url"}

# Summaries of models that the API does not describe, or describes for other readers.
SUMMARIES = {
    "AuditEntry": "A recorded change. Only the operator's list has the `tenant`.",
    "Build": "A build of a collection: its points for one embedding and one set of options.",
    "Chunk": "A chunk of a document.",
    "ChunkCounts": "Numbers of chunks of a document.",
    "Citation": "A passage that the answer cites.",
    "Collection": "A collection with the state of its documents.",
    "CollectionOptions": "Options of a collection; None means that the server's setting applies.",
    "NumberedState": "The number of a build and its state.",
    "DeadReason": "Number of dead letters with a reason.",
    "Erasure": "The progress of an erasure.",
    "FoundChunk": "A chunk in the result of a query.",
    "LabelledSet": "Questions with the documents or the chunks that answer them.",
    "LabelledSetSize": "The size of a labelled set.",
    "Me": "The tenant and permissions of the key, and properties of the server.",
    "Question": "A question of a chunk.",
    "QueryMetadata": "Facts about a query.",
    "Usage": "Tokens and cost of model calls.",
}

# Names of `values.py` that are also names of `models.py`.
VALUES = ["Event", "Json", "KeyScope", "Lane", "Model", "Version"]

HEADER = f'''\
"""Replies of the API, generated from its description: do not edit.

Fields that a newer server adds are kept as attributes without a type. A newer server may also return other words than
those listed here.
"""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from foreask_client.values import {", ".join(["Completeness", *VALUES])}

__all__ = {sorted(MODELS + VALUES)}
'''
SCALARS = {
    "date-time": "datetime",
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
}
_filled = partial(fill, width=120, break_on_hyphens=False)


class Description:
    """The schemas of the API's description, and the client's types of their values."""

    def __init__(self) -> None:
        self._schemas: dict[str, Schema] = create(Settings(_env_file=None)).openapi()["components"]["schemas"]
        self._models = {name: model for model in MODELS for name in self._names(model)}

    def _names(self, model: str) -> list[str]:
        return SCHEMAS.get(model) or [f"{model}View" if f"{model}View" in self._schemas else model]

    def schemas_of(self, model: str) -> list[Schema]:
        """Return the schemas that a model reads."""
        return [self._schemas[name] for name in self._names(model)]

    def type_of(self, schema: Schema) -> str:
        """Return the client's type of a value."""
        if "$ref" in schema:
            name = _name(schema)
            return self._models.get(name) or self.type_of(self._schemas[name])
        if "anyOf" in schema:
            return " | ".join(dict.fromkeys(map(self.type_of, schema["anyOf"])))
        if "prefixItems" in schema:
            return f"tuple[{', '.join(map(self.type_of, schema['prefixItems']))}]"
        if "items" in schema:
            return f"list[{self.type_of(schema['items'])}]"
        if schema.get("type") == "object":
            values = schema.get("additionalProperties")
            return f"dict[str, {self.type_of(values)}]" if isinstance(values, dict) else "Json"
        return SCALARS.get(schema.get("format", "")) or SCALARS[schema["type"]]

    def words_of(self, schema: Schema) -> list[str]:
        """Return the words that a value, or each item of a list, can have."""
        if "$ref" in schema:
            return self.words_of(self._schemas[_name(schema)])
        inner = schema.get("anyOf", [schema["items"]] if "items" in schema else [])
        return schema.get("enum") or [word for each in inner for word in self.words_of(each)]


def _name(schema: Schema) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def generated() -> str:
    """Return the content of `models.py`."""
    description = Description()
    text = "\n\n".join([HEADER, *(_class(description, model) for model in MODELS)])
    command = [sys.executable, "-m", "ruff", "format", "--quiet", "--stdin-filename", str(TARGET), "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def _class(description: Description, model: str) -> str:
    schemas = description.schemas_of(model)
    fields = {name: field for schema in schemas for name, field in schema["properties"].items()}
    superclass = SUPERCLASSES.get(model, "Model")
    inherited = description.schemas_of(superclass)[0]["properties"] if superclass in MODELS else {}
    fields = {name: field for name, field in fields.items() if name not in inherited}
    summary = SUMMARIES.get(model) or schemas[0]["description"]
    lines = [_declaration(description, f"{model}.{name}", field) for name, field in fields.items()]
    return "\n".join([f"class {model}({superclass}):", *_docstring(description, summary, fields), "", *lines])


def _declaration(description: Description, path: str, schema: Schema) -> str:
    type_ = description.type_of(schema)
    name = path.partition(".")[2]
    if path in SECRETS:
        return f"    {name}: {type_} = Field(repr=False)"
    default = repr(DEFAULTS[path]) if path in DEFAULTS else _empty(type_)
    return f"    {name}: {type_}" + (f" = {default}" if default else "")


def _empty(type_: str) -> str | None:
    """Return the empty value of a type, such as `[]`; None if it has none."""
    if type_.endswith("| None"):
        return "None"
    if type_.startswith("list["):
        return "[]"
    return "{}" if type_ == "Json" or type_.startswith("dict[") else None


def _docstring(description: Description, summary: str, fields: dict[str, Schema]) -> Iterator[str]:
    first, _, others = _as_python(summary).partition(". ")
    attributes = [(name, text) for name, field in fields.items() if (text := _meaning(description, field))]
    yield f'    """{first.rstrip(".")}.'
    if others:
        yield "\n" + _filled(others, initial_indent=" " * 4, subsequent_indent=" " * 4)
    if attributes:
        yield "\n    Attributes:"
    for name, text in attributes:
        yield _filled(f"{name}: {text}", initial_indent=" " * 8, subsequent_indent=" " * 12)
    yield '    """'


def _meaning(description: Description, schema: Schema) -> str:
    """Return the description of a field, with its words if the description does not name all of them."""
    text = _as_python(schema.get("description", "")).rstrip(".")
    text = re.sub(r"^(?!None)[A-Z](?=[a-z ])", lambda first: first[0].lower(), text)
    words = [f"`{word}`" for word in description.words_of(schema)]
    if not all(word in text for word in words):
        text = f"{text}. Values: {', '.join(words)}" if text else f"{', '.join(words[:-1])} or {words[-1]}"
    return f"{text}." if text else ""


def _as_python(text: str) -> str:
    """Return a text of the API with Python's words for null, true and false."""
    text = re.sub(r"\bnull\b", "None", text)
    return re.sub(r"`(true|false)`", lambda word: f"`{word[1].capitalize()}`", text)


def main() -> None:
    text = generated()
    if "--check" not in sys.argv:
        TARGET.write_text(text)
    elif text != TARGET.read_text():
        sys.exit(f"{TARGET.relative_to(TARGET.parents[3])} is not current: run `make client`")


if __name__ == "__main__":
    main()
