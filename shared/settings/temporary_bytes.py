"""The default of the temporary space of a source on disk."""

TEMPORARY_BYTES = 10 << 30
