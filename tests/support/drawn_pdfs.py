"""PDF files from the contents of their pages, drawn by coordinates."""

from __future__ import annotations

from collections.abc import Sequence

BODY = "The harbour opens at six and closes when the last ferry has left the pier"


def line(x: float, y: float, text: str, size: float = 10, font: str = "F1") -> str:
    """Return the content of a line of text; the font `F2` is bold."""
    escaped = text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
    return f"BT /{font} {size} Tf 1 0 0 1 {x} {y} Tm ({escaped}) Tj ET\n"


def lines(x: float, y: float, *texts: str, pitch: float = 12, size: float = 10, font: str = "F1") -> str:
    """Return the content of lines of text below each other."""
    return "\n".join(line(x, y - pitch * index, text, size, font) for index, text in enumerate(texts))


def box(xs: Sequence[float], ys: Sequence[float]) -> str:
    """Return the content of ruling lines at these distances from the left and heights."""
    across = [f"{xs[0]} {y} m {xs[-1]} {y} l S" for y in ys]
    return "\n".join([*across, *(f"{x} {ys[0]} m {x} {ys[-1]} l S" for x in xs), ""])


def filled(x: float, y: float, width: float, height: float) -> str:
    """Return the content of a grey rectangle, given by its lower left corner."""
    return f"0.8 g {x} {y} {width} {height} re f 0 g\n"


def pdf(*contents: str, page: str = "", catalog: str = "", more: Sequence[bytes] = (), info: str = "") -> bytes:
    """Return a PDF file with these contents of pages; objects of `more` have the numbers from 100 on."""
    fonts = "/F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
    fonts += " /F2 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold /Encoding /WinAnsiEncoding >>"
    pages = range(len(contents))
    kids = " ".join(f"{10 + 2 * index} 0 R" for index in pages)
    objects = {1: f"<< /Type /Catalog /Pages 2 0 R {catalog} >>".encode(), 3: f"<< {info} >>".encode()}
    objects[2] = f"<< /Type /Pages /Kids [{kids}] /Count {len(contents)} >>".encode()
    for index, content in enumerate(contents):
        objects[10 + 2 * index] = (
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents {11 + 2 * index} 0 R"
            f" /Resources << /Font << {fonts} >> /XObject << /I1 100 0 R >> >> {page} >>"
        ).encode()
        data = content.encode("cp1252")
        objects[11 + 2 * index] = b"<< /Length %d >> stream\n%s\nendstream" % (len(data), data)
    objects |= {100 + index: item for index, item in enumerate(more)}
    body, places = b"%PDF-1.7\n", {}
    for number, item in objects.items():
        places[number] = len(body)
        body += b"%d 0 obj\n%s\nendobj\n" % (number, item)
    table = b"".join(b"%d 1\n%010d 00000 n \n" % place for place in places.items())
    return body + b"xref\n%strailer << /Size 200 /Root 1 0 R /Info 3 0 R >>\nstartxref\n%d\n%%%%EOF" % (
        table,
        len(body),
    )
