"""Qdrant's own engine behind the subset of Qdrant's REST API that the project uses."""
