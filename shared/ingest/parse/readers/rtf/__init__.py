"""Reader of RTF (version 1.9.1): paragraphs, headings, lists, tables, notes and comments, and HTML packed by Outlook.

Pictures, embedded objects, deleted text and the definitions of fonts and colours are not read. Headers and footers are
read if a file has no other text.
"""

from __future__ import annotations

from shared.domain.errors import Unreadable
from shared.ingest.parse.readers.guard import escaped
from shared.ingest.parse.readers.reading import FileReading, Part
from shared.ingest.parse.readers.rtf.interpreter import Interpreter


def read(content: bytes) -> FileReading:
    """Return the text of an RTF file."""
    if not content.lstrip().startswith(b"{\\rt"):
        raise Unreadable("the RTF file is damaged and cannot be read; create or download it again")
    reader = Interpreter(content)
    reader.run()
    title = reader.title
    if not (text := reader.blocks.markdown()):  # forms have all of their text in the header
        return FileReading((Part(escaped("".join(reader.margins).strip())),), title)
    return FileReading((Part(text, "".join(reader.raw)),), title)


def packed_html(content: bytes) -> str | None:
    """Return the HTML that Outlook has packed into RTF (MS-OXRTFEX); None if the RTF contains none."""
    if b"\\fromhtml" not in content[:4096]:
        return None
    reader = Interpreter(content, packed=True)
    reader.run()
    return "".join(reader.page)
