"""Scores: the channels of a search, and the fusion and order of their results."""
