"""A run: pages are visited one after the other, and compared at the end."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

import structlog

from features.sources.errors import COMPONENT
from features.sources.web.crawl.crawl_state import CrawlState, PageToVisit, Visit
from features.sources.web.crawl.memory import Memory, VisitOutcome
from features.sources.web.crawl.plans import Plan
from features.sources.web.crawl.texts import Texts
from features.sources.web.examination import Examiner, refusal
from features.sources.web.visitor import Visitor
from shared.domain.errors import Misconfigured, Unavailable
from shared.ingest.parse.web.addresses import origin_of
from shared.process.threads import OwnThreads

_MOST_HOPS = 5
_MOST_FAULTS = 10  # in a row: the server is down, and the rest of the pages would look refused

log = structlog.get_logger()


class Crawl:
    """A run of a source.

    Args:
        plan: addresses of the source.
        state: state, which is empty.
        visitor: sends requests.
        examiner: reads pages.
        texts: stores documents until they are fetched.
        progressed: called after each page.
    """

    def __init__(
        self,
        plan: Plan,
        state: CrawlState,
        visitor: Visitor,
        examiner: Examiner,
        texts: Texts,
        *,
        progressed: Callable[[], None],
    ) -> None:
        self._plan = plan
        self._state = state
        self._visitor = visitor
        self._examiner = examiner
        self._texts = texts
        self._progressed = progressed
        self._visited = 0
        self._faults: Counter[str] = Counter()
        self._by_pattern: Counter[str] = Counter()
        self._unchanged = False
        self._thread = OwnThreads("crawl")

    async def run(self, memory: Memory) -> None:
        """Visit all pages, compare them, and replace the notes. The state must have the notes of the previous run.

        After an error it may be called again, and continues with the pages that it has not visited. After the death of
        its process, another one continues with the pages that the state has loaded.

        Raises:
            Unavailable: the list, the start or robots.txt cannot be read, or the server is down. The notes remain.
        """
        self._faults.clear()
        self._by_pattern = self._state.visits_by_pattern()
        self._visited = self._by_pattern.total()
        self._unchanged |= self._state.is_continued  # earlier visits of this run may have found unchanged pages
        await self._add_seeds()
        await self._visit_all(memory)
        await self._state.store_pages(memory, is_last=True)
        await self._thread.run(self._state.compare)
        self._thread.close()
        await self._state.save(memory)
        log.info("crawl.finished", start=self._plan.start, **self._state.counts())

    async def _add_seeds(self) -> None:
        """Add the first pages. Hosts take turns, so that their pauses overlap."""
        ranks = _RanksByHost()
        async for address in self._plan.seeds(self._visitor):
            self._add_seed(address, ranks)
            self._progressed()
        for address in self._state.known_addresses() if self._plan.keeps_known else ():
            self._add_seed(address, ranks)

    def _add_seed(self, address: str, ranks: _RanksByHost) -> None:
        if canonical := self._plan.canonical_address(address):
            self._state.add([canonical], rank=ranks.next(canonical))

    async def _visit_all(self, memory: Memory) -> None:
        await self._visit_found(memory)
        if self._unchanged and self._visited < self._plan.options.pages:
            # Links of unchanged pages are known from their children's notes, which have a limited number of parents.
            self._state.add_linked_by_more()
            await self._visit_found(memory)
        limited = self._state.next() is not None
        reason = f"The crawl reached its limit of {self._plan.options.pages:,} pages before this one."
        self._state.refuse_unvisited(reason, also_unfound=limited)
        if limited:
            log.warning("crawl.limited", start=self._plan.start, pages=self._plan.options.pages)

    async def _visit_found(self, memory: Memory) -> None:
        while self._visited < self._plan.options.pages and (page := self._state.next()):
            if self._by_pattern[page.pattern] >= self._plan.same_pattern:
                self._state.record(page, Visit(VisitOutcome.TRAPPED))
                continue
            self._by_pattern[page.pattern] += 1
            self._visited += 1
            self._settle(page, await self._visit(page))
            self._progressed()
            await self._state.store_pages(memory)

    async def _visit(self, page: PageToVisit) -> Visit:
        host = origin_of(page.address)
        is_own = host == origin_of(self._plan.start)
        if self._faults[host] >= _MOST_FAULTS:
            message = f"The last {_MOST_FAULTS} pages of {host} cannot be read."
            if is_own:
                raise Unavailable(message, component=COMPONENT)
            return refusal(message, page.note)
        try:
            visit = await self._examiner.examine(page.address, page.note)
        except Unavailable as error:
            if error.component != COMPONENT or is_own:
                raise
            visit = refusal(error.message, page.note, fault=True)  # another host of a list must not stop the run
        self._faults[host] = self._faults[host] + 1 if visit.fault else 0
        return visit

    def _settle(self, page: PageToVisit, visit: Visit) -> None:
        """Record a visit, and add the pages to which it leads."""
        if visit.outcome is VisitOutcome.MOVED:
            visit = self._follow(page, visit)
        if visit.outcome is VisitOutcome.UNSUPPORTED and self._plan.reports_unsupported:
            visit = refusal(visit.reason or "", visit.note)
        if page.address == self._plan.start and self._plan.starts_with_page:
            self._require_start(visit)
        self._state.record(page, visit)
        if visit.content is not None and visit.text_hash:
            self._texts.store(visit.text_hash, visit.content)
        if page.rank < self._plan.depth:
            links = self._state.known_children(page.digest) if visit.unchanged else visit.links
            self._add([*links, *([visit.target] if visit.target else [])], rank=page.rank + 1, parent=page.digest)
        self._unchanged |= visit.unchanged

    def _follow(self, page: PageToVisit, visit: Visit) -> Visit:
        """Add the target of a redirect; a page whose target is outside the source is refused."""
        target = self._plan.canonical_address(visit.target or "")
        if target is None:
            return refusal(f"It redirects to {visit.target}, which does not belong to this source.", page.note)
        if page.hops >= _MOST_HOPS:
            return refusal(f"It is reached by more than {_MOST_HOPS} redirects.", page.note)
        self._state.add([target], rank=page.rank, parent=page.digest, hops=page.hops + 1)
        return visit

    def _require_start(self, visit: Visit) -> None:
        if visit.outcome in (VisitOutcome.REFUSED, VisitOutcome.MISSING, VisitOutcome.UNSUPPORTED):
            reason = visit.reason or "The server answers that it does not exist."
            kind = Unavailable if visit.fault else Misconfigured
            raise kind(f"The start {self._plan.start} cannot be read: {reason}", component=COMPONENT)

    def _add(self, links: Iterable[str], *, rank: int, parent: str = "") -> None:
        addresses = dict.fromkeys(filter(None, map(self._plan.canonical_address, links)))
        self._state.add(addresses, rank=rank, parent=parent)


class _RanksByHost:
    """Ranks of the first pages: the first page of each host, then the second one of each."""

    def __init__(self) -> None:
        self._counts: defaultdict[str, int] = defaultdict(int)

    def next(self, address: str) -> int:
        host = origin_of(address)
        self._counts[host] += 1
        return self._counts[host] - 1
