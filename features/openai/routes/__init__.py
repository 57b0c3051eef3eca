"""The routes for OpenAI's clients: a collection is a model, and a vector store."""

from __future__ import annotations

from features.openai.missing import MissingAddresses
from features.openai.routes import chat, models, responses, vector_stores
from shared.http.feature_routes import FeatureRoutes

OPENAI_ROUTES = FeatureRoutes(
    (chat.router, responses.router, models.router, vector_stores.router),
    {
        "name": "openai",
        "description": "Queries for OpenAI's clients: a collection is a model, and a vector store.",
    },
    endpoint=MissingAddresses,
)
