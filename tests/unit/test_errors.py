import pickle
from datetime import timedelta

from shared.domain.errors import InvalidInput, Unavailable


def test_errors_keep_their_fields_across_processes():
    error = Unavailable("gone", component="llm", retry_after=timedelta(seconds=3))

    copy = pickle.loads(pickle.dumps(error))

    assert (type(copy), copy.message, copy.component, copy.retry_after) == (
        Unavailable,
        "gone",
        "llm",
        timedelta(seconds=3),
    )
    assert str(copy) == "gone"


def test_invalid_field_name_survives_pickling():
    assert pickle.loads(pickle.dumps(InvalidInput("bad", field="filter.year"))).field == "filter.year"
