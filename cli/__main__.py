"""`python -m cli`: the command line without its entry script."""

from cli.main import run

run()
