"""Retrieval: a question is matched against questions and texts, folded to distinct chunks, and fitted to a budget."""

from shared.domain.records import Weights
from shared.query.retrieve.channels import Found
from shared.query.retrieve.chunks import RetrievedChunk
from shared.query.retrieve.fusion import Match, Place, fuse
from shared.query.retrieve.query import CHANNELS, Channel, FusionName, Order, Query, Source, Unit
from shared.query.retrieve.retriever import STAGES, Retrieval, Retriever
from shared.vectors.filters import condition_of

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
