"""Forms with a sample of the files of a planned load."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi import Request

from shared.domain.errors import InvalidInput, TooLarge
from shared.http.forms import PartReader, field_text


@dataclass(frozen=True, slots=True)
class SampleFile:
    """A file of a form, held in memory only."""

    filename: str | None
    media_type: str | None
    content: bytes


async def read_sample(
    request: Request, allowed: frozenset[str], *, most_files: int, most_bytes: int
) -> tuple[list[SampleFile], dict[str, str]]:
    """Read a form with fields and several parts `file`, without storing anything.

    Args:
        request: the request.
        allowed: names of fields.
        most_files: maximum number of files.
        most_bytes: maximum size of the form.

    Returns:
        The files, and the texts of the fields.

    Raises:
        TooLarge: the form exceeds the maximum size or number of files.
        MalformedRequest: the body is not a form, or it is truncated.
        InvalidInput: a field is unknown, repeated or not UTF-8.
    """
    parts = PartReader(request, most_bytes, None)
    files: list[SampleFile] = []
    fields: dict[str, str] = {}
    while (part := await parts.next()) is not None:
        content = b"".join([piece async for piece in parts.content()])
        if part.name == "file":
            files.append(SampleFile(part.filename, part.media_type, content))
        elif part.name not in allowed or part.name in fields:
            names = ", ".join(("file", *sorted(allowed)))
            raise InvalidInput(
                f"Allowed fields of the form: {names}. Only `file` may be repeated.", field=part.name[:100]
            )
        else:
            fields[part.name] = field_text(part.name, content)
        if len(files) > most_files:
            raise TooLarge(
                f"The form has more than {most_files} files: send some of them, and the total number as `count`."
            )
    return files, fields
