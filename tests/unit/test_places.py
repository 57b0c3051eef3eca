"""The names of Qdrant's collections."""

import re

import pytest

from shared.domain.places import index_name


@pytest.mark.parametrize("model", ["text-embedding-3-small", "org/Model v2:latest", "модель", "../..", "x" * 500])
def test_a_name_is_safe_in_a_folder_and_in_an_address(model):
    name = index_name("foreask", model, 384)

    assert re.fullmatch(r"foreask-[A-Za-z0-9.-]+-384", name)
    assert len(name) < 100


def test_models_that_are_alike_in_safe_characters_have_their_own():
    models = ["a/b", "a b", "a-b", "-a-b", "x" * 61, "x" * 62]

    assert len({index_name("foreask", model, None) for model in models}) == len(models)


def test_a_model_that_is_asked_for_a_size_has_a_collection_for_it():
    assert len({index_name("foreask", "m", dimensions) for dimensions in (None, 256, 512)}) == 3
    assert index_name("a", "m", None) != index_name("b", "m", None)
