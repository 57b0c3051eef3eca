"""Readers of tables and listings, which run in a confined process: see `shared.confined`."""
