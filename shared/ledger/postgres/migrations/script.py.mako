"""${message}"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
min_revision = ${repr(down_revision)}  # the oldest code that may run on this schema: see `env.py`


def upgrade() -> None:
    ${upgrades if upgrades else "pass"}
