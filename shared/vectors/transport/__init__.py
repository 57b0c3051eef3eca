"""Requests to the nodes of a Qdrant cluster, and their errors."""
