"""Readers of spreadsheets, and the Markdown of their tables."""
