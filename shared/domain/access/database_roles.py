"""Names of the PostgreSQL roles that `foreask schema` creates; `shared/ledger/postgres/roles.py` grants privileges."""

APP_ROLE = "foreask_app"  # of the API, the scheduler, and workers that generate and index
PARSE_ROLE = "foreask_parse"
SCALE_ROLE = "foreask_scale"  # of an autoscaler
