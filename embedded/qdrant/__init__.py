"""The subset of Qdrant's REST API that the project uses, served by Qdrant's own engine."""
