"""Evaluation: strategies are compared over one set, with the same questions and embeddings."""
