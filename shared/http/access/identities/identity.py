"""The holders of tokens."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from shared.domain.access.persons import Person

_OWNER = "person:"
_LOG_CHARS = len(_OWNER) + 8  # as many as of a key


@dataclass(frozen=True, slots=True)
class Identity:
    """The holder of a verified token.

    Args:
        tenant: tenant of the person.
        person: names of the user and of the groups.
        principals: the readers that the person matches; see `shared.domain.access.persons`.
        owner: name of the person as an owner of data, from which neither the issuer nor the subject can be read.
        is_administrator: whether the person has every scope of the tenant.
        expires_at: end of the token's validity in Unix seconds, with the accepted difference of clocks.
    """

    tenant: str
    person: Person
    principals: tuple[str, ...]
    owner: str
    is_administrator: bool
    expires_at: float

    @property
    def id(self) -> UUID:
        """The id of the person in logs of queries, from which neither the issuer nor the subject can be read."""
        return UUID(self.owner.removeprefix(_OWNER)[:32])

    @property
    def log_name(self) -> str:
        """The name of the person in log lines, which contain no names of users."""
        return self.owner[:_LOG_CHARS]


def is_token(key: str) -> bool:
    """Return whether a sent key has the form of a signed token: three parts. Our keys have no dots."""
    return key.count(".") == 2  # noqa: PLR2004
