"""The OCR engine: Tesseract in this process. The only module that calls tesserocr."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import tesserocr
from PIL import Image, ImageDraw, ImageFont

from shared.ingest.parse.scans.ink import Box

_WORD_LEVEL, _TSV_FIELDS = "5", 12  # in the engine's table of words
_PICTURES = {
    tesserocr.PT.FLOWING_IMAGE,
    tesserocr.PT.HEADING_IMAGE,
    tesserocr.PT.PULLOUT_IMAGE,
    tesserocr.PT.HORZ_LINE,
    tesserocr.PT.VERT_LINE,
}
# Letters of scripts without spaces between words; the engine writes one after each.
_UNSPACED = r"[\u0e00-\u0e7f\u3001-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uff00-\uffef]"
_NEEDLESS_SPACE = re.compile(rf"(?<={_UNSPACED}) +(?={_UNSPACED})")


@dataclass(frozen=True, slots=True)
class Found:
    """The words on a picture.

    Args:
        text: the words in lines and paragraphs.
        confidences: the confidence of each word, 0 to 100.
        words: boxes of the words.
        pictures: boxes of parts without text, such as photographs and rules.
    """

    text: str
    confidences: Sequence[float]
    words: Sequence[Box]
    pictures: Sequence[Box]

    @property
    def confidence(self) -> float:
        return fmean(self.confidences) if self.confidences else 0.0

    def turned(self, size: tuple[int, int]) -> Found:
        """Return the same words with the boxes that they have after their page is rotated by 180 degrees."""
        return replace(self, words=_turned(self.words, size), pictures=_turned(self.pictures, size))


def _turned(boxes: Sequence[Box], size: tuple[int, int]) -> list[Box]:
    width, height = size
    return [(width - right, height - bottom, width - left, height - top) for left, top, right, bottom in boxes]


class Engine:
    """An engine with its languages loaded.

    Args:
        folder: folder of the language data.
        languages: their codes; the first one has precedence.

    Raises:
        RuntimeError: the data cannot be loaded.
    """

    def __init__(self, folder: Path, languages: Sequence[str]) -> None:
        self._engine = tesserocr.PyTessBaseAPI(
            path=str(folder), lang="+".join(languages), psm=tesserocr.PSM.AUTO, oem=tesserocr.OEM.LSTM_ONLY
        )
        # Messages go to this process's error output: by default a file is opened for the first one, and a process that
        # may open none crashes.
        self._engine.SetVariable("debug_file", "")
        self.read(_SAMPLE, 200)  # loads the rest: a confined process opens no file

    def read(self, page: Image.Image, dpi: int) -> Found:
        """Return the words on a grey page.

        Raises:
            RuntimeError: the engine failed.
        """
        try:
            self._engine.SetImageBytes(page.tobytes(), page.width, page.height, 1, page.width)
            self._engine.SetSourceResolution(dpi)
            if not self._engine.Recognize():
                raise RuntimeError("the engine recognised nothing")
            words = list(_words(self._engine.GetTSVText(0)))
            text = _NEEDLESS_SPACE.sub("", self._engine.GetUTF8Text()).strip() if words else ""
            boxes = [box for box, _ in words]
            return Found(text, [confidence for _, confidence in words], boxes, list(self._pictures()))
        finally:
            self._engine.Clear()

    def _pictures(self) -> Iterator[Box]:
        blocks = self._engine.GetIterator()
        if blocks is None:
            return
        for block in tesserocr.iterate_level(blocks, tesserocr.RIL.BLOCK):
            if block.BlockType() in _PICTURES and (box := block.BoundingBox(tesserocr.RIL.BLOCK)):
                yield box


def _words(table: str) -> Iterator[tuple[Box, float]]:
    """Yield the box and the confidence of each word in the engine's table of tab-separated values."""
    for row in table.splitlines():
        fields = row.split("\t")
        if len(fields) == _TSV_FIELDS and fields[0] == _WORD_LEVEL and fields[11].strip():
            left, top, width, height = map(int, fields[6:10])
            yield (left, top, left + width, top + height), min(100.0, max(0.0, float(fields[10])))


def _sample() -> Image.Image:
    sample = Image.new("L", (800, 120), 255)
    ImageDraw.Draw(sample).text((40, 40), "The harbour opens at six.", font=ImageFont.load_default(size=36), fill=0)
    return sample


_SAMPLE = _sample()
