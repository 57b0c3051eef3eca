"""Hints: messages that entries of a source have changed."""
