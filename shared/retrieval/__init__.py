"""Retrieval: a question is matched against questions and texts, folded to distinct chunks, and fitted to a budget."""

from shared.ledger.records import Weights
from shared.retrieval.budget import fit
from shared.retrieval.channels import Found
from shared.retrieval.conditions import condition_of
from shared.retrieval.fusion import Match, Place, fuse
from shared.retrieval.query import CHANNELS, Channel, FusionName, Query
from shared.retrieval.retriever import Retrieval, RetrievedChunk, Retriever

__all__ = [
    "CHANNELS",
    "Channel",
    "Found",
    "FusionName",
    "Match",
    "Place",
    "Query",
    "Retrieval",
    "RetrievedChunk",
    "Retriever",
    "Weights",
    "condition_of",
    "fit",
    "fuse",
]
