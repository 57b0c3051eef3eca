"""Readers of markup languages: LaTeX, reStructuredText and Org."""
