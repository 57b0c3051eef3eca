"""The routes of feedback, users' questions and suggested questions."""

from __future__ import annotations

from features.feedback.routes import asked, feedback, suggestions
from shared.http.feature_routes import FeatureRoutes

FEEDBACK_ROUTES = FeatureRoutes(
    (feedback.router, asked.router, suggestions.router),
    {
        "name": "feedback",
        "description": "Accept users' questions as questions of chunks, and find those without an answer.",
    },
)
