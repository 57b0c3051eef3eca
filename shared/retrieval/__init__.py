"""Retrieval: a question is matched against questions and texts, folded to distinct chunks, and fitted to a budget."""

from shared.retrieval.budget import fit
from shared.retrieval.conditions import condition_of
from shared.retrieval.folding import Match, fold
from shared.retrieval.retriever import Query, Retrieval, RetrievedChunk, Retriever

__all__ = ["Match", "Query", "Retrieval", "RetrievedChunk", "Retriever", "condition_of", "fit", "fold"]
