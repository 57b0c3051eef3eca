"""Rows of the ledger as values, and values as rows."""
