"""Limits of pages that are read."""

MAX_PIXELS = 40_000_000
"""A larger page is drawn smaller: Tesseract needs 5 to 8 bytes for a pixel."""

MAX_DECODED = 4 * MAX_PIXELS
"""A picture with more pixels is rejected: before it is drawn smaller, it needs up to 4 bytes for each."""

LEAST_DPI = 100
"""Below this resolution letters of a common size have too few pixels."""

MAX_PAGES = 2_000
"""Maximum pages of a file that are read; at one second each it takes half an hour of one core."""

MAX_PAGE_CHARS = 100_000
"""Maximum length of a page's text; a page of a newspaper has up to 40,000 characters."""

MAX_SIDE = 32_000
"""Tesseract accepts 32,767 pixels."""

LEAST_SIDE = 8
"""No letter fits into fewer pixels."""

MAX_ILLUSTRATION_BYTES = 1_000_000
"""Maximum size of a picture for a vision model: in Base64 it fits into a part of a reply."""

PAGE_SECONDS = 20
"""Processor time for a page, with its repetition."""
