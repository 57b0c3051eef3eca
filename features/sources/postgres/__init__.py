"""Rows of a database as sources."""
