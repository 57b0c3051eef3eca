"""The names of the roles in PostgreSQL that `foreask schema` makes; shared/ledger/roles.py says what each may do."""

APP_ROLE = "foreask_app"  # of the API, the scheduler, and workers that generate and index
PARSE_ROLE = "foreask_parse"
