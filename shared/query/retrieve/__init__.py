"""Retrieval: a question is matched against questions and texts, folded to distinct chunks, and fitted to a budget."""

from shared.domain.corpus.collections import Weights
from shared.query.retrieve.chunks import RetrievedChunk
from shared.query.retrieve.live import LiveRetriever
from shared.query.retrieve.query import CHANNELS, Channel, FusionName, Query, QuestionOrigin, ReturnOrder, ReturnUnit
from shared.query.retrieve.retriever import Retrieval, Retriever
from shared.query.retrieve.scores.channels import ChannelHits
from shared.query.retrieve.scores.fusion import ChannelRank, Match, fuse

__all__ = [
    "CHANNELS",
    "Channel",
    "ChannelHits",
    "ChannelRank",
    "FusionName",
    "LiveRetriever",
    "Match",
    "Query",
    "QuestionOrigin",
    "Retrieval",
    "RetrievedChunk",
    "Retriever",
    "ReturnOrder",
    "ReturnUnit",
    "Weights",
    "fuse",
]
