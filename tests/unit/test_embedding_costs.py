from dataclasses import dataclass, field
from uuid import UUID, uuid4

from shared.domain.spending.usage import Usage
from shared.domain.stages.work import Lease
from shared.ingest.index.embedding_costs import EmbeddingCosts


@dataclass
class CostedChunk:
    """The part of a chunk that its costs depend on."""

    tenant: str
    token: int
    embedding_model: str = "model"
    collection_id: UUID = field(default_factory=uuid4)
    document_id: UUID = field(default_factory=uuid4)
    job_id: UUID | None = None

    @property
    def lease(self):
        return Lease(self.document_id, 1, self.token)


def test_request_shares_sum_to_billed_tokens():
    chunks = [CostedChunk("alice", 1), CostedChunk("alice", 1), CostedChunk("bob", 2), CostedChunk("carol", 3)]
    costs = EmbeddingCosts()

    costs.bill(chunks, ["a" * 300, "b" * 30, "c" * 600, ""], Usage(1001))
    first, second, third = costs.take([chunk.lease for chunk in chunks])

    assert [cost.tenant for cost in (first, second, third)] == ["alice", "bob", "carol"]
    assert sum(cost.usage.prompt_tokens for cost in (first, second, third)) == 1001
    assert 1.7 < second.usage.prompt_tokens / first.usage.prompt_tokens < 1.9
    assert [cost.calls for cost in (first, second, third)] == [1, 0, 0]


def test_costs_of_chunk_requests_are_summed():
    chunk = CostedChunk("alice", 1)
    costs = EmbeddingCosts()

    for tokens in (10, 20):
        costs.bill([chunk], ["text"], Usage(tokens))

    (cost,) = costs.take([chunk.lease])
    assert (cost.usage, cost.calls, cost.kind, cost.model) == (Usage(30), 2, "embed", "model")
    assert costs.take([chunk.lease]) == []
