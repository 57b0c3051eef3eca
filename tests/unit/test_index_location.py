"""The names of Qdrant's collections."""

import re

import pytest

from shared.domain.corpus.index_location import IndexNames, is_in_space, vector_space


@pytest.mark.parametrize("model", ["text-embedding-3-small", "org/Model v2:latest", "модель", "../..", "x" * 500])
def test_index_name_is_safe_as_folder_and_address(model):
    name = IndexNames("foreask", {"name": vector_space(model, 384)}).for_embedding("name")

    assert re.fullmatch(r"foreask-[A-Za-z0-9.-]+-384", name)
    assert len(name) < 100


def test_similar_model_names_get_different_collections():
    models = ["a/b", "a b", "a-b", "-a-b", "x" * 61, "x" * 62]

    assert len({vector_space(model) for model in models}) == len(models)


def test_requested_dimensions_get_own_collection():
    assert len({vector_space("m", dimensions) for dimensions in (None, 256, 512)}) == 3
    assert IndexNames("a").for_embedding("m") != IndexNames("b").for_embedding("m")


def test_each_prefix_pair_gets_own_collection():
    prefixes = [("", ""), ("query: ", ""), ("", "query: "), ("query: ", "passage: ")]

    assert len({vector_space("m", None, *pair) for pair in prefixes}) == 4


def test_vector_space_is_recognised_in_any_deployment():
    name = IndexNames("acme", {"e5": vector_space("e5", 384, "query: ", "passage: ")}).for_embedding("e5")

    assert is_in_space(name, vector_space("e5", 384, "query: ", "passage: "))
    assert not any(is_in_space(name, space) for space in (vector_space("e5", 384), vector_space("e5")))
