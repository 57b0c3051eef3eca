"""All states are set by the transitions of one table, which its module draws at the top."""

import re
from pathlib import Path

import pytest

import shared
from shared.domain.states import AcceptedState, BuildState, ChunkState, DocumentState
from shared.ledger.model import states
from tests.support.transitions import TRANSITIONS

ROOT = Path(shared.__file__).parents[1]
SERVERS = ("api", "workers", "shared")
CRAWLS = ROOT / "shared" / "sources" / "pages"
# Python's own keyword arguments have no spaces.
SETS_A_STATE = re.compile(r"\bSET\s+(build_)?state\s*=|,\s+(build_)?state\s+=\s")
STATES = {*BuildState, *DocumentState, *ChunkState, *AcceptedState}
NAMES_A_STATE = re.compile("|".join(f"'{state}'" for state in STATES))


def modules():
    for package in SERVERS:
        for path in sorted((ROOT / package).rglob("*")):
            is_code = path.suffix in {".py", ".sql"} and path != Path(states.__file__)
            # The schema names states in indexes and triggers. A crawl has a database of its own.
            if is_code and "migrations" not in path.parts and path.parent != CRAWLS:
                yield path


def occurrences(pattern):
    return [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in modules()
        for match in pattern.finditer(path.read_text())
    ]


def row(name, transition):
    """Return the line of a transition in the drawn table."""
    sources = ", ".join(source or "new" for source in transition.sources)
    if transition.sources == states.EXISTING_DOCUMENTS:
        sources = "any but deleting"
    return f"{transition.table} {name} {sources} -> {' | '.join(transition.targets)}"


def drawn():
    table, rows = "", []
    for line in (states.__doc__ or "").splitlines():
        if line.startswith("    "):
            rows.append(" ".join([table, *line.split()]))
        else:
            table = line
    return rows


def test_drawn_transitions_equal_table():
    assert drawn() == [row(name, transition) for name, transition in TRANSITIONS.items()]


def test_no_other_module_sets_a_state():
    assert occurrences(SETS_A_STATE) == []


def test_no_other_module_names_a_state_in_sql():
    assert occurrences(NAMES_A_STATE) == []


def test_every_state_is_reachable():
    kinds = {"collections": BuildState, "documents": DocumentState}
    for table, kind in {**kinds, "chunks": ChunkState, "accepted_questions": AcceptedState}.items():
        targets = {target for t in TRANSITIONS.values() if t.table == table for target in t.targets}
        assert targets == set(kind)


def test_condition_names_source_states():
    assert states.INDEX_AGAIN.applies("d") == "d.state IN ('searchable', 'ready', 'degraded')"
    assert states.REOPEN.applies() == "state = 'degraded'"


def test_assignment_selects_target_by_condition():
    assert states.DELETE.sets() == "state = 'deleting'"
    assert states.FINISH.sets("dead > 0") == "state = CASE WHEN dead > 0 THEN 'degraded' ELSE 'ready' END"


@pytest.mark.parametrize("conditions", [(), ("a", "b")])
def test_assignment_needs_conditions_for_all_targets_but_one(conditions):
    with pytest.raises(ValueError, match="zip"):
        states.FINISH.sets(*conditions)
