"""Readers: one module for each format, which returns the parts of a file as Markdown (`reading.FileReading`)."""
