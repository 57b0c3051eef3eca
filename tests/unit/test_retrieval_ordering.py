import pytest

from shared.query.retrieve.rank_probe import ExpectedChunk, settled
from shared.query.retrieve.scores.channels import ChannelHits, merge
from shared.query.retrieve.scores.fusion import Match
from shared.query.retrieve.scores.ordering import boosted, on_one_scale, passage_of, reranked


def match(chunk_id, score):
    return Match(chunk_id, score, None, {})


def payload(text, headings=(), title=None):
    return {"text": text, "heading_path": list(headings), "title": title, "span": [0, len(text)]}


def test_merge_keeps_best_score_and_discounts_rewritten_hits():
    direct = {"questions": ChannelHits({"a": 0.9, "b": 0.5}, {"a": "A?", "b": "B?"}, floor=0.4)}
    first = {"questions": ChannelHits({"a": 0.95, "b": 0.8, "c": 0.6}, {"a": "A2?", "b": "B2?", "c": "C?"}, floor=0.5)}
    second = {"questions": ChannelHits({"c": 0.7}, {"c": "C2?"}), "bm25": ChannelHits({"d": 0.5})}

    result = merge(direct, [first, second])

    assert result["questions"].scores == pytest.approx({"a": 0.9, "b": 0.72, "c": 0.63})
    assert list(result["questions"].scores) == ["a", "b", "c"]
    assert result["questions"].questions == {"a": "A?", "b": "B2?", "c": "C2?"}
    assert result["questions"].floor == pytest.approx(0.45)
    assert result["bm25"].scores == pytest.approx({"d": 0.45})


def test_merged_hits_are_ranked_again():
    direct = {"text": ChannelHits({"a": 0.5, "b": 0.4})}

    assert list(merge(direct, [{"text": ChannelHits({"b": 0.9})}])["text"].scores) == ["b", "a"]


def test_hits_are_unchanged_without_rewriting():
    direct = {"text": ChannelHits({"b": 0.5, "a": 0.4}, floor=0.3)}

    assert merge(direct, []) == direct


def test_chunks_gain_by_share_of_matched_names():
    matches = [match("none", 0.50), match("text", 0.49), match("heading", 0.48), match("other", 0.47)]
    payloads = {
        "none": payload("Marshal Ada Lovelaces are others, and so is the Adam."),
        "text": payload("What ADA  Lovelace\nwrote of engines."),
        "heading": payload("She wrote.", headings=["Ada Lovelace"], title="The Analytical Engine"),
    }

    result = boosted(matches, payloads, ["Ada Lovelace", "analytical engine"])

    assert [m.chunk_id for m in result] == ["heading", "text", "none", "other"]
    assert [m.score for m in result] == pytest.approx([0.528, 0.5145, 0.50, 0.47])


def test_name_without_words_changes_no_score():
    matches = [match("a", 0.5), match("b", 0.4)]

    assert boosted(matches, {"b": payload("???")}, ["???"]) == matches


def test_matched_name_never_lowers_chunk():
    assert boosted([match("a", -0.2)], {"a": payload("Ada")}, ["Ada"])[0].score == pytest.approx(-0.18)


def test_reranked_chunks_come_first_in_rerankers_order():
    matches = [match("a", 0.9), match("b", 0.8), match("c", 0.7), match("d", 0.6)]

    result = reranked(matches, {"a": -2.0, "b": 0.0, "c": 3.0})

    assert [(m.chunk_id, m.score, m.rerank_score) for m in result] == [
        ("c", 0.7, 3.0),
        ("b", 0.8, 0.0),
        ("a", 0.9, -2.0),
        ("d", 0.6, None),
    ]


def test_scores_are_reassigned_in_descending_order():
    assert on_one_scale([match("c", 0.7), match("a", 0.9)]) == [match("c", 0.9), match("a", 0.7)]


def test_reranked_passage_starts_with_title_and_headings():
    assert passage_of(payload("Thirty days.", ["Staff", "Leave"], "Handbook")) == (
        "Handbook > Staff > Leave\n\nThirty days."
    )
    assert passage_of(payload("Thirty days.")) == "Thirty days."


def test_names_match_in_scripts_without_spaces():
    matches = [match("other", 0.50), match("named", 0.49)]
    payloads = {"other": payload("守塔人搬到了城里。"), "named": payload("港口旁边的灯塔在去年重新粉刷过。")}

    assert [m.chunk_id for m in boosted(matches, payloads, ["灯塔"])] == ["named", "other"]


def test_reason_for_exclusion_depends_on_rank():
    placed = [ExpectedChunk(name, rank=1) for name in ("returned", "crowded", "behind")]
    placed.append(ExpectedChunk("hidden", left_out="filter"))

    result = settled(placed, best={"returned", "crowded"}, returned={"returned"})

    assert [each.left_out for each in result] == [None, "max_tokens", "top_k", "filter"]
