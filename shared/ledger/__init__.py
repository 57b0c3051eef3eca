"""The ledger: every unit of work is a row in PostgreSQL, and the row is the truth about it."""

from __future__ import annotations

from dataclasses import dataclass

from shared.ledger.audit import Audit
from shared.ledger.backlog import Backlogs
from shared.ledger.builds import Builds
from shared.ledger.calibrations import Calibrations
from shared.ledger.collections import Collections
from shared.ledger.completions import Completions
from shared.ledger.costs import Costs
from shared.ledger.dead_letters import DeadLetters
from shared.ledger.deployment import DeploymentIdentity
from shared.ledger.descriptions import Descriptions
from shared.ledger.documents import Documents
from shared.ledger.erasures import Erasures
from shared.ledger.estimates import Estimates
from shared.ledger.evaluations import Evaluations
from shared.ledger.evidence import Evidence
from shared.ledger.feedback import Feedback
from shared.ledger.heartbeats import Heartbeats
from shared.ledger.keys import Keys
from shared.ledger.query_log import QueryLog
from shared.ledger.tallies import Tallies
from shared.ledger.tenants import Tenants
from shared.ledger.webhooks import Webhooks
from shared.ledger.work import Work


@dataclass(frozen=True, slots=True)
class Ledger:
    deployment: DeploymentIdentity
    collections: Collections
    builds: Builds
    evidence: Evidence
    completions: Completions
    erasures: Erasures
    documents: Documents
    descriptions: Descriptions
    work: Work
    backlogs: Backlogs
    dead_letters: DeadLetters
    audit: Audit
    query_log: QueryLog
    feedback: Feedback
    calibrations: Calibrations
    costs: Costs
    estimates: Estimates
    tallies: Tallies
    keys: Keys
    tenants: Tenants
    heartbeats: Heartbeats
    webhooks: Webhooks
    evaluations: Evaluations


__all__ = [
    "Audit",
    "Backlogs",
    "Builds",
    "Calibrations",
    "Collections",
    "Completions",
    "Costs",
    "DeadLetters",
    "DeploymentIdentity",
    "Descriptions",
    "Documents",
    "Erasures",
    "Estimates",
    "Evaluations",
    "Evidence",
    "Feedback",
    "Heartbeats",
    "Keys",
    "Ledger",
    "QueryLog",
    "Tallies",
    "Tenants",
    "Webhooks",
    "Work",
]
