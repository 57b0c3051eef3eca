"""The environment of engines, without the secrets of the process that starts them."""

from __future__ import annotations

import os

# To find programs, libraries and Python's packages; for messages and times; for temporary files; for OpenMP's threads.
_NAMES = frozenset(
    {
        "PATH",
        "HOME",  # Python finds packages there that were installed for one user
        "LD_LIBRARY_PATH",
        "DYLD_LIBRARY_PATH",
        "PYTHONPATH",
        "PYTHONHOME",
        "PYTHONUSERBASE",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONPYCACHEPREFIX",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TMPDIR",
    }
)
_PREFIXES = ("LC_", "OMP_", "GOMP_")


def without_secrets() -> dict[str, str]:
    """Return the variables of this process that an engine needs. No other variable is passed, because it may be a key.

    Another user's engine, such as PostgreSQL, shows its environment to that user and to the owner of its database.
    """
    return {name: value for name, value in os.environ.items() if name in _NAMES or name.startswith(_PREFIXES)}
