"""A program for tests of forks: `python -m tests.support.forked CODE` executes Python code."""

import sys

if __name__ == "__main__":
    exec(sys.argv[1])  # noqa: S102 - of a test
