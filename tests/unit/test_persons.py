"""Persons and readers: names as they are compared, and the condition of a person's searches."""

import pytest

from shared.domain.access.persons import (
    EVERYONE,
    MOST_GROUPS,
    MOST_READERS,
    UNSET,
    may_read,
    named_readers,
    person_of,
    readers_of,
    stored_readers,
)
from shared.domain.access.restriction import UNRESTRICTED, Restriction
from shared.domain.errors import Forbidden, InvalidInput
from shared.vectors.schema.fields import reader_numbers
from shared.vectors.schema.filters import caller_conditions
from tests.support.planted import guards


def test_person_matches_own_name_groups_and_everyone():
    ada = person_of("ada", ["legal", "hr", "legal"])

    assert ada.principals(reads_unset=False) == (EVERYONE, "group:hr", "group:legal", "user:ada")
    assert set(ada.principals(reads_unset=True)) - set(ada.principals(reads_unset=False)) == {UNSET}


@pytest.mark.parametrize(
    "name", ["everyone", "unset", "user:ada", "group:legal", "*", "a,b", '"', "😀", " x ", "\u200c"]
)
def test_odd_names_match_only_themselves(name):
    principals = person_of(name, [name]).principals(reads_unset=False)

    assert set(principals) == {EVERYONE, f"user:{name}", f"group:{name}"}
    assert may_read(principals, readers_of([f"group:{name}"]))
    assert not may_read(principals, readers_of(["user:eve"]))


@guards(
    "shared/domain/access/persons.py",
    "    name = composed(name)\n",
    "",
    means="a person whose name was typed on macOS reads nothing of their own",
)
def test_forms_of_unicode_are_equal():
    decomposed, composed = "Zu\u0308rich", "Z\u00fcrich"

    assert person_of(decomposed, [decomposed]) == person_of(composed, [composed])
    assert readers_of([f"group:{decomposed}"]) == readers_of([f"group:{composed}"])


@pytest.mark.parametrize("name", ["", " ", "a" * 257, "a\nb", "a\0b", "\ud800"])
def test_unusable_names_are_refused(name):
    with pytest.raises(InvalidInput, match="1 to 256 characters"):
        person_of(name, [])
    with pytest.raises(InvalidInput, match="1 to 256 characters"):
        person_of("ada", [name])
    with pytest.raises(InvalidInput, match="1 to 256 characters") as refused:
        readers_of([f"user:{name}"])
    assert refused.value.field == "readable_by"


@pytest.mark.parametrize("reader", ["", "ada", "unset", "Everyone", "role:admin", "users:ada", "group", "\0"])
def test_readers_have_a_kind(reader):
    with pytest.raises(InvalidInput, match="`everyone`, `user:NAME` or `group:NAME`"):
        readers_of([reader])


def test_numbers_of_readers_and_groups_are_limited():
    readers_of([f"user:{number}" for number in range(MOST_READERS)])
    person_of("ada", map(str, range(MOST_GROUPS)))
    with pytest.raises(InvalidInput, match="at most 500 readers"):
        readers_of([f"user:{number}" for number in range(MOST_READERS + 1)])
    with pytest.raises(Forbidden, match="1,001 groups"):
        person_of("ada", map(str, range(MOST_GROUPS + 1)))


def test_stored_readers_keep_whether_any_are_named():
    assert [named_readers(stored_readers(each)) for each in (None, (), ("everyone",))] == [None, (), ("everyone",)]
    assert not may_read(["everyone", "user:ada"], stored_readers(()))
    assert may_read(None, stored_readers(()))


@guards(
    "shared/vectors/schema/filters.py",
    "    if restriction.principals is not None:",
    "    if restriction.principals:",
    means="a caller without principals finds every document",
)
def test_principals_are_a_condition_of_each_search():
    principals = person_of("ada", ["legal"]).principals(reads_unset=True)
    (condition,) = caller_conditions(None, None, (), Restriction(principals=principals))

    assert condition == {"key": "readers", "match": {"any": reader_numbers(principals)}}
    assert caller_conditions(None, None, (), Restriction(principals=())) == [{"key": "readers", "match": {"any": []}}]
    assert caller_conditions(None, None, (), UNRESTRICTED) == []
    assert Restriction(principals=()).is_partial
    assert not UNRESTRICTED.is_partial


def test_numbers_of_readers_are_the_same_everywhere():
    assert reader_numbers(["everyone", "group:Zürich"]) == [4290860939587249839, 1332891252503048773]
