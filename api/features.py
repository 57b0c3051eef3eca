"""The routes of the features, which only the API imports. `features/all.py` lists the features."""

from __future__ import annotations

from features.access.routes import ACCESS_ROUTES
from features.audit_log.routes import AUDIT_LOG_ROUTES
from features.builds.routes import BUILD_ROUTES
from features.conversations.routes import CONVERSATION_ROUTES
from features.dify.routes import DIFY_ROUTES
from features.erasure.routes import ERASURE_ROUTES
from features.estimates.routes import ESTIMATE_ROUTES
from features.evaluation.routes import EVALUATION_ROUTES
from features.feedback.routes import FEEDBACK_ROUTES
from features.gaps.routes import GAP_ROUTES
from features.mcp.routes import MCP_ROUTES
from features.openai.routes import OPENAI_ROUTES
from features.shared_answers.routes import SHARED_ANSWER_ROUTES
from features.similarity.routes import SIMILARITY_ROUTES
from features.sources.routes import SOURCE_ROUTES
from features.trials.routes import TRIAL_ROUTES
from features.verification.routes import VERIFICATION_ROUTES
from features.webhooks.routes import WEBHOOK_ROUTES
from shared.http.feature_routes import FeatureRoutes

FEATURE_ROUTES: tuple[FeatureRoutes, ...] = (
    ACCESS_ROUTES,
    AUDIT_LOG_ROUTES,
    BUILD_ROUTES,
    CONVERSATION_ROUTES,
    DIFY_ROUTES,
    ERASURE_ROUTES,
    ESTIMATE_ROUTES,
    EVALUATION_ROUTES,
    FEEDBACK_ROUTES,
    GAP_ROUTES,
    MCP_ROUTES,
    OPENAI_ROUTES,
    SHARED_ANSWER_ROUTES,
    SIMILARITY_ROUTES,
    SOURCE_ROUTES,
    TRIAL_ROUTES,
    VERIFICATION_ROUTES,
    WEBHOOK_ROUTES,
)
