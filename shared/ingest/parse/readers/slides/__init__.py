"""Readers of presentations: PowerPoint files, new and old."""
