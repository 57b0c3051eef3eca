"""`python -m foreask_mcp`: the command without its entry script."""

from foreask_mcp.main import run

run()
