"""The ledger: every unit of work is a row in PostgreSQL, which is authoritative for its state."""

from __future__ import annotations

from dataclasses import dataclass

from shared.ledger.budgets.budgets import Budgets
from shared.ledger.builds.build_comparison import BuildComparison
from shared.ledger.builds.builds import Builds
from shared.ledger.builds.calibrations import Calibrations
from shared.ledger.builds.estimates import Estimates
from shared.ledger.documents.audit import Audit
from shared.ledger.documents.completions import Completions
from shared.ledger.documents.dead_letters import DeadLetters
from shared.ledger.documents.descriptions import Descriptions
from shared.ledger.documents.documents import Documents
from shared.ledger.documents.page_texts import PageTexts
from shared.ledger.documents.suggestions import Suggestions
from shared.ledger.erasure.erasures import Erasures
from shared.ledger.feedback.conversations import Conversations
from shared.ledger.feedback.evaluations import Evaluations
from shared.ledger.feedback.feedback import Feedback
from shared.ledger.feedback.gaps import Gaps
from shared.ledger.feedback.query_log import QueryLog
from shared.ledger.feedback.shared_answers import SharedAnswers
from shared.ledger.jobs.jobs import Jobs
from shared.ledger.model.collections import Collections
from shared.ledger.model.counters import Counters
from shared.ledger.runs.gates import Gates
from shared.ledger.runs.repairs import Repairs
from shared.ledger.runs.run_claims import RunClaims
from shared.ledger.runs.verifications import Verifications
from shared.ledger.sources.hints import Hints
from shared.ledger.sources.listings import Listings
from shared.ledger.sources.notes import Notes
from shared.ledger.sources.sources import Sources
from shared.ledger.sources.syncs import Syncs
from shared.ledger.tenants.audit_log import AuditLog
from shared.ledger.tenants.deployment import DeploymentIdentity
from shared.ledger.tenants.keys import Keys
from shared.ledger.tenants.tenants import Tenants
from shared.ledger.tenants.webhooks import Webhooks
from shared.ledger.work.backlog import Backlogs
from shared.ledger.work.batches import Batches
from shared.ledger.work.costs import Costs
from shared.ledger.work.demand import Demand
from shared.ledger.work.heartbeats import Heartbeats
from shared.ledger.work.pages import Pages
from shared.ledger.work.shown_batches import ShownBatches
from shared.ledger.work.work import Work


@dataclass(frozen=True, slots=True)
class Ledger:
    deployment: DeploymentIdentity
    collections: Collections
    builds: Builds
    build_comparison: BuildComparison
    completions: Completions
    page_texts: PageTexts
    erasures: Erasures
    documents: Documents
    descriptions: Descriptions
    work: Work
    pages: Pages
    backlogs: Backlogs
    batches: Batches
    shown_batches: ShownBatches
    demand: Demand
    dead_letters: DeadLetters
    audit: Audit
    query_log: QueryLog
    gaps: Gaps
    suggestions: Suggestions
    shared_answers: SharedAnswers
    conversations: Conversations
    feedback: Feedback
    calibrations: Calibrations
    costs: Costs
    budgets: Budgets
    estimates: Estimates
    counters: Counters
    audit_log: AuditLog
    keys: Keys
    tenants: Tenants
    heartbeats: Heartbeats
    webhooks: Webhooks
    evaluations: Evaluations
    runs: RunClaims
    gates: Gates
    verifications: Verifications
    repairs: Repairs
    jobs: Jobs
    sources: Sources
    syncs: Syncs
    listings: Listings
    hints: Hints
    notes: Notes


__all__ = [
    "Audit",
    "AuditLog",
    "Backlogs",
    "Batches",
    "Budgets",
    "BuildComparison",
    "Builds",
    "Calibrations",
    "Collections",
    "Completions",
    "Conversations",
    "Costs",
    "Counters",
    "DeadLetters",
    "Demand",
    "DeploymentIdentity",
    "Descriptions",
    "Documents",
    "Erasures",
    "Estimates",
    "Evaluations",
    "Feedback",
    "Gaps",
    "Gates",
    "Heartbeats",
    "Hints",
    "Jobs",
    "Keys",
    "Ledger",
    "Listings",
    "Notes",
    "PageTexts",
    "Pages",
    "QueryLog",
    "Repairs",
    "RunClaims",
    "SharedAnswers",
    "ShownBatches",
    "Sources",
    "Suggestions",
    "Syncs",
    "Tenants",
    "Verifications",
    "Webhooks",
    "Work",
]
