"""The features, for the processes that need all of them. Their routes are in `api/features.py`."""

from __future__ import annotations

from features.access.feature import ACCESS
from features.audit_log.feature import AUDIT_LOG
from features.builds.feature import BUILDS
from features.conversations.feature import CONVERSATIONS
from features.erasure.feature import ERASURE
from features.evaluation.feature import EVALUATION
from features.feedback.feature import FEEDBACK
from features.gaps.feature import GAPS
from features.shared_answers.feature import SHARED_ANSWERS
from features.sources.feature import SOURCES
from features.verification.feature import VERIFICATION
from features.webhooks.feature import WEBHOOKS
from shared.services.features import Feature

FEATURES: tuple[Feature, ...] = (
    ACCESS,
    AUDIT_LOG,
    BUILDS,
    CONVERSATIONS,
    ERASURE,
    EVALUATION,
    FEEDBACK,
    GAPS,
    SHARED_ANSWERS,
    SOURCES,
    VERIFICATION,
    WEBHOOKS,
)
