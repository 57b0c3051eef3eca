"""The index: the points of chunks and their questions."""

BATCH_CHUNKS = 32  # of one round of embedding
