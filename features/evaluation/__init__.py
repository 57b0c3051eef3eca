"""Evaluations: labelled questions of a collection, and the retrieval quality of strategies that they measure."""
