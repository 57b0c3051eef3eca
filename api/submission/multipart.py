"""Forms with one document: fields are read into memory, and the file is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fastapi import Request

from api.schemas.documents import DocumentFields
from api.submission.upload_guard import UploadGuard
from shared.domain.errors import InvalidInput, TooLarge
from shared.http.bodies import parse_json, validate_as
from shared.http.forms import FormPart, PartReader, field_text
from shared.settings import Settings
from shared.storage.uploads import Upload

FIELDS = frozenset({"collection", "external_id", "title", "metadata", "readable_by", "questions", "lane", "job"})
_JSON_FIELDS = frozenset({"metadata", "readable_by", "questions"})


@dataclass(frozen=True, slots=True)
class DocumentForm:
    """A form with one `file`, whose bytes are stored; `fields` has the bytes of the other parts by name."""

    fields: Mapping[str, bytes]
    upload: Upload
    filename: str | None
    media_type: str | None

    def document_fields(self) -> DocumentFields:
        """Return the validated fields; an empty field counts as absent.

        Raises:
            MalformedRequest: `metadata`, `readable_by` or `questions` is not JSON.
            InvalidInput: a field is not UTF-8, has a NUL character, or is invalid.
        """
        values: dict[str, object] = {}
        for name, raw in self.fields.items():
            if name in _JSON_FIELDS:
                if raw.strip():
                    values[name] = parse_json(raw, name)
            elif value := field_text(name, raw):
                values[name] = value
        return validate_as(DocumentFields, values)


async def read_form(request: Request, guard: UploadGuard, settings: Settings) -> DocumentForm:
    """Read a form with one `file`, with parts in any order; the guard stores the file.

    Raises:
        TooLarge: the file, or the fields together, exceed their limit.
        MalformedRequest: the body is not a form, or it is truncated.
        InvalidInput: the file is missing or empty, or a field is unknown or repeated.
        Unavailable: the disk failed.
    """
    parts = PartReader(request, settings.max_upload_bytes + settings.max_json_bytes, "FOREASK_MAX_UPLOAD_BYTES")
    fields: dict[str, bytes] = {}
    rest = settings.max_json_bytes
    file: tuple[FormPart, Upload] | None = None
    while (part := await parts.next()) is not None:
        if part.name == "file":
            if file is not None:
                raise InvalidInput(
                    "A form may have one `file` only: send each document in a separate request.", field="file"
                )
            file = part, await guard.store(parts.content(), max_bytes=settings.max_upload_bytes)
        elif part.name not in FIELDS or part.name in fields:
            allowed = ", ".join(("file", *sorted(FIELDS)))
            raise InvalidInput(f"A form may have these fields, each once: {allowed}.", field=part.name[:100])
        else:
            fields[part.name] = await _read_field(parts, rest)
            rest -= len(fields[part.name])
    if file is None:
        raise InvalidInput("The form has no `file`.", field="file")
    part, upload = file
    if not upload.size_bytes:
        raise InvalidInput("The file is empty.", field="file")
    return DocumentForm(fields, upload, part.filename, part.media_type)


async def _read_field(parts: PartReader, max_bytes: int) -> bytes:
    value = bytearray()
    async for piece in parts.content():
        value += piece
        if len(value) > max_bytes:
            raise TooLarge("The form's fields have too many bytes (FOREASK_MAX_JSON_BYTES).")
    return bytes(value)
