"""Syncing: the documents of a source are brought up to date with its listing."""
