"""Retrieval: a question is matched against questions and texts, folded to distinct chunks, and fitted to a budget."""

from shared.ledger.records import Weights
from shared.retrieval.channels import Found
from shared.retrieval.chunks import RetrievedChunk
from shared.retrieval.conditions import condition_of
from shared.retrieval.fusion import Match, Place, fuse
from shared.retrieval.query import CHANNELS, Channel, FusionName, Order, Query, Source, Unit
from shared.retrieval.retriever import STAGES, Retrieval, Retriever

__all__ = [
    "CHANNELS",
    "STAGES",
    "Channel",
    "Found",
    "FusionName",
    "Match",
    "Order",
    "Place",
    "Query",
    "Retrieval",
    "RetrievedChunk",
    "Retriever",
    "Source",
    "Unit",
    "Weights",
    "condition_of",
    "fuse",
]
