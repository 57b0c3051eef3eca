"""A reference survives its name, whatever characters its key and its version have."""

from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.storage.references import Reference, is_reference
from shared.storage.uploads import stored_in

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=60)


@settings(deadline=None)
@given(st.uuids(), st.binary(min_size=32, max_size=32), TEXTS, TEXTS)
def test_name_leads_to_reference(source_id, sha256, version, key):
    reference = Reference(source_id, sha256, version, key)

    assert is_reference(reference.name)
    assert Reference.parse(reference.name) == reference


def test_indexed_part_of_name_is_short():
    reference = Reference(UUID(int=1), b"\0" * 32, "1", "#" * 1_024)

    assert stored_in(reference.name) == "ref:00000000-0000-0000-0000-000000000001"
