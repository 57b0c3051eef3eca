"""The routes of the features, which only the API imports. `features/all.py` lists the features."""

from __future__ import annotations

from features.webhooks.routes import WEBHOOK_ROUTES
from shared.http.feature_routes import FeatureRoutes

FEATURE_ROUTES: tuple[FeatureRoutes, ...] = (WEBHOOK_ROUTES,)
