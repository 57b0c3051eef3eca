"""Packs whose objects are too large are refused before they are unpacked."""

import struct
import zlib
from io import BytesIO

import pytest
from dulwich.object_format import DEFAULT_OBJECT_FORMAT
from dulwich.objects import Blob
from dulwich.pack import create_delta, write_pack_header, write_pack_object, write_pack_objects

from shared.sources.git.packs import TooLargePack, require_bounded
from tests.support.planted import guards

OFFSET_DELTA, REFERENCE_DELTA = 6, 7


def check(content, max_bytes, tmp_path):
    path = tmp_path / "pack"
    path.write_bytes(content)
    with path.open("rb") as file:
        require_bounded(file, max_bytes=max_bytes, hash_bytes=20)


def pack_of(*contents):
    file = BytesIO()
    write_pack_objects(file.write, [Blob.from_string(content) for content in contents], DEFAULT_OBJECT_FORMAT)
    return file.getvalue()


def pack_with_delta(kind, base, target):
    """Return a pack with an object and a delta of it."""
    file = BytesIO()
    blob = Blob.from_string(base)
    write_pack_header(file.write, 2)
    start = file.tell()
    write_pack_object(file.write, Blob.type_num, [base], DEFAULT_OBJECT_FORMAT)
    distance = file.tell() - start
    delta = list(create_delta([base], [target]))
    base_of_delta = distance if kind == OFFSET_DELTA else bytes.fromhex(blob.id.decode())
    write_pack_object(file.write, kind, (base_of_delta, delta), DEFAULT_OBJECT_FORMAT)
    return file.getvalue() + b"\0" * 20


@pytest.mark.parametrize("size", [0, 1, 15, 16, 2_047, 2_048, 200_000])
def test_object_is_bounded_by_its_size(size, tmp_path):
    pack = pack_of(b"first", bytes(size), b"last" * 100)

    check(pack, max(size, 400), tmp_path)
    if size > 400:
        with pytest.raises(TooLargePack):
            check(pack, size - 1, tmp_path)


@guards(
    "shared/sources/git/packs.py",
    "if kind in (_OFFSET_DELTA, _REFERENCE_DELTA):",
    "if False:",
    means="the size of a delta's result is not checked",
)
@pytest.mark.parametrize("kind", [OFFSET_DELTA, REFERENCE_DELTA])
def test_delta_is_bounded_by_its_result(kind, tmp_path):
    base = bytes(range(256)) * 40
    pack = pack_with_delta(kind, base, base * 50)
    assert len(pack) < 20_000

    check(pack, 512_000, tmp_path)
    with pytest.raises(TooLargePack):
        check(pack, 511_999, tmp_path)


@pytest.mark.parametrize(
    "content",
    [b"\0", b"PACK", pack_of(b"one")[:-25], b"WORD" + pack_of(b"one")[4:], pack_of(b"x" * 99)[:14] + b"\xff" * 99],
)
def test_other_content_than_pack_is_rejected(content, tmp_path):
    with pytest.raises((ValueError, IndexError, struct.error, zlib.error)) as caught:
        check(content, 10_000, tmp_path)
    assert not isinstance(caught.value, TooLargePack)


def test_longer_content_than_declared_is_rejected(tmp_path):
    packed = zlib.compress(bytes(10_000_000))
    pack = b"PACK" + (2).to_bytes(4, "big") + (1).to_bytes(4, "big") + bytes([0x35]) + packed + b"\0" * 20

    with pytest.raises(ValueError, match="does not have its length"):
        check(pack, 1_000, tmp_path)
