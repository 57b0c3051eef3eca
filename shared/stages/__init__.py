"""The stages of the ingest, each as a drain's claim, work and settlement: parse, ask, index."""

from shared.stages.asking import asking_stage
from shared.stages.indexing import clean, indexing_stage
from shared.stages.parsing import parsing_stage

__all__ = ["asking_stage", "clean", "indexing_stage", "parsing_stage"]
