"""Folders, and folders of object stores, as sources: each file is a document."""
