"""Evaluation of retrieval: strategies, their quality, and the differences between two of them."""
