"""Errors whose class determines the next step; the message never does.

ForeaskError
├── Transient     try again, not before `retry_after`
│   ├── RateLimited          a provider answered 429
│   │   └── TenantLimited    the tenant's own limits are used up
│   ├── NoCapacity           a provider has no capacity left in the requested service tier
│   ├── Unavailable          an engine or provider cannot be reached, or answered 5xx
│   │   ├── TimedOut         it did not answer in time
│   │   ├── UnusableReply    its reply broke off, or has no content that we can read
│   │   │   └── InterruptedReply  the connection broke after the request
│   │   └── Misconfigured    it refuses calls with any text, such as for a wrong key or model
│   │       └── UnsupportedTier  it does not offer the requested service tier
│   ├── BudgetExhausted      the next call does not fit in a budget
│   ├── LeaseLost            this process may no longer hold the work: another one may do it
│   └── Stopping             this process ends: another one does the work
├── Permanent     a dead letter, with a reason that a person can read
│   ├── Unreadable           a file whose text cannot be read
│   ├── BadReply             a reply that stayed malformed after its repairs
│   └── Refused              the provider rejects this request on every attempt
│       └── FailsOnText      it fails on this text and answers others; another attempt may succeed
└── Rejected      the caller made an invalid request
    ├── InvalidInput
    ├── NotFound
    │   └── NoCollection     a collection that does not exist
    ├── Conflict
    │   └── JobIsOpen        a job with the same key is open
    ├── TooLarge
    ├── Unauthorized         the caller is not authenticated
    └── Forbidden            the caller is authenticated, but may not do this
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from shared.domain.spending.tiers import Tier
from shared.domain.spending.usage import Usage

_ENGINES = {"ledger", "broker", "qdrant"}


class ForeaskError(Exception):
    """An error whose message is a sentence for people.

    Attributes:
        words: words of the provider or the engine, as every tenant may read them; empty if it sent none.
        status: status of its answer; None if there was none.
    """

    words: str = ""
    status: int | None = None

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __reduce__(self) -> tuple[object, ...]:
        # The default uses only `args` and would lose keyword fields between processes.
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(kind: type[ForeaskError], args: tuple[object, ...], fields: dict[str, object]) -> ForeaskError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(fields)
    return error


class Transient(ForeaskError):
    """Another attempt may succeed, but not before `retry_after`.

    `burns_attempt` is False if the work did not cause the error: it may then be retried without limit.
    """

    def __init__(self, message: str, *, retry_after: timedelta | None = None, burns_attempt: bool = True) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.burns_attempt = burns_attempt


class RateLimited(Transient):
    """A provider answered 429, so all callers must slow down."""

    def __init__(self, message: str, *, retry_after: timedelta | None = None) -> None:
        super().__init__(message, retry_after=retry_after, burns_attempt=False)


class TenantLimited(RateLimited):
    """The tenant's own limits are used up now, even if the provider's limits are not."""


class NoCapacity(Transient):
    """A provider has no capacity left in the requested service tier: it refuses the call, and does not bill it.

    Calls in other tiers continue, and the provider is healthy.
    """

    def __init__(self, message: str, *, retry_after: timedelta | None = None) -> None:
        super().__init__(message, retry_after=retry_after, burns_attempt=False)


class Unavailable(Transient):
    """An engine or provider cannot be reached, timed out or answered 5xx.

    Args:
        message: the problem.
        component: the failing part: `ledger`, `uploads`, `broker`, `qdrant`, `llm`, `embedding`, `rerank` or
            `identity provider`.
        retry_after: earliest sensible time for another attempt.
        answered: whether it answered this request with an error. The request may have caused it, so the attempt counts.
            Errors of the ledger, the broker and Qdrant are never caused by the work.
    """

    def __init__(
        self, message: str, *, component: str, retry_after: timedelta | None = None, answered: bool = False
    ) -> None:
        super().__init__(message, retry_after=retry_after, burns_attempt=answered and component not in _ENGINES)
        self.component = component


class TimedOut(Unavailable):
    """A provider did not answer in time."""


class UnusableReply(Unavailable):
    """A provider's reply that broke off, or has no content that we can read.

    Its request was sent, so the provider may charge for the call, and another attempt counts.

    Args:
        message: the problem.
        component: the provider.
        usage: tokens billed for the call; None if the provider has reported none.
    """

    def __init__(self, message: str, *, component: str, usage: Usage | None = None) -> None:
        super().__init__(message, component=component, answered=True)
        self.usage = usage


class InterruptedReply(UnusableReply):
    """The connection broke after the request was sent: a reply without content comes from a provider that works."""


class Misconfigured(Unavailable):
    """A provider refuses calls with any text: a wrong key or model, or options that it does not support.

    The work waits, and continues when a neutral call passes.
    """


class UnsupportedTier(Misconfigured):
    """A provider does not offer the requested service tier; calls in the standard tier continue."""


class BudgetExhausted(Transient):
    """The next call of a chunk does not fit in a budget; its paid replies are stored."""

    def __init__(self, message: str = "the budget has no room for the next call") -> None:
        super().__init__(message, retry_after=timedelta(seconds=1), burns_attempt=False)


class LeaseLost(Transient):
    """The lease may have expired, so another worker may have claimed the work: no more calls are paid here."""

    def __init__(self, message: str = "the lease may have ended") -> None:
        super().__init__(message, burns_attempt=False)


class Stopping(Transient):
    """This process is stopping and starts no more work; another process may claim the work at once."""

    def __init__(self, message: str = "the process is asked to end") -> None:
        super().__init__(message, burns_attempt=False)


class Permanent(ForeaskError):
    """No further attempt can succeed; the message becomes the reason of the dead letter."""


class Unreadable(Permanent):
    """A file without readable text: encrypted, corrupt, image-only, of an unknown kind, or too large when unpacked.

    `detail` is the parser's own error, for the log.
    """

    def __init__(self, message: str, *, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


class BadReply(Permanent):
    """A model's reply that stayed malformed after its repairs."""


class Refused(Permanent):
    """The provider rejects this text on every attempt (refusal, content filter), and answers others.

    `usage` has the tokens billed for the rejection, in this `tier`; None if nothing is billed. `is_estimated` is set if
    the provider has not reported them.
    """

    def __init__(
        self,
        message: str,
        *,
        usage: Usage | None = None,
        tier: Tier = Tier.STANDARD,
        is_estimated: bool = False,
    ) -> None:
        super().__init__(message)
        self.usage = usage
        self.tier = tier
        self.is_estimated = is_estimated


class FailsOnText(Refused):
    """The provider fails on this text, and answers others: the text is the cause, unless it is a coincidence.

    It is raised from the failure.
    """


class Rejected(ForeaskError):
    """The caller made an invalid request; `field` names the part to change, if a single part is wrong."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class InvalidInput(Rejected):
    """The request is understood, but its values cannot be used."""


class NotFound(Rejected):
    """The tenant has no such object."""


class NoCollection(NotFound):
    """The tenant has no collection of this name.

    Attributes:
        tenant: owner of the collection.
        name: name of the missing collection.
        similar: names of existing collections, the most similar first; None unless the caller may see them.
        others: number of further collections that the caller may see.
    """

    def __init__(self, message: str, *, tenant: str = "", name: str = "") -> None:
        super().__init__(message, field="collection")
        self.tenant = tenant
        self.name = name
        self.similar: Sequence[str] | None = None
        self.others = 0


class Conflict(Rejected):
    """The current state forbids the request; the message says what to do."""


class JobIsOpen(Conflict):
    """A job with the same key is open; `job_id` names it."""

    def __init__(self, message: str, job_id: UUID) -> None:
        super().__init__(message)
        self.job_id = job_id


class TooLarge(Rejected):
    """The request has more bytes than the limit."""


class Unauthorized(Rejected):
    """The request has no key, or an invalid one.

    Args:
        message: the problem.
        key_state: `missing`, `unknown`, `revoked` or `expired`; for a signed token also another word, which
            docs/reference/errors.md lists; None if the server requires no keys.
    """

    def __init__(self, message: str, *, key_state: str | None = None) -> None:
        super().__init__(message)
        self.key_state = key_state


class Forbidden(Rejected):
    """The key is valid, but lacks the right."""
