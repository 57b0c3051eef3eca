"""Packs whose objects are too large are refused before they are unpacked."""

import struct
import zlib
from io import BytesIO

import pytest
from dulwich.object_format import DEFAULT_OBJECT_FORMAT
from dulwich.objects import Blob
from dulwich.pack import create_delta, write_pack_header, write_pack_object, write_pack_objects

from features.sources.git.packs import Pack, TooLargePack, index_of, indexed, mapped
from tests.support.planted import guards
from tests.support.processor_time import processor_time_limit

OFFSET_DELTA, REFERENCE_DELTA = 6, 7


def check(content, max_bytes, tmp_path):
    path = tmp_path / "pack"
    path.write_bytes(content)
    with path.open("rb") as file, mapped(file.fileno()) as pack:
        return [entry for found in indexed(pack, max_bytes=max_bytes) for entry in found]


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
    "features/sources/git/packs.py",
    "    if size > max_bytes:\n        raise TooLargePack\n    return",
    "    return",
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

    with pytest.raises(zlib.error, match="exceeds expected size"):
        check(pack, 1_000, tmp_path)


@guards(
    "features/sources/git/packs.py",
    "data[offset : offset + _MOST_LENGTH_BYTES]",
    "data[offset:]",
    means="a number without an end keeps a process busy until its limit",
)
@pytest.mark.parametrize(
    "start",
    [b"\xb5", b"\x60\x80", b"\x7e" + bytes(20) + zlib.compress(b"\x80" * 14)],
    ids=["size", "base", "delta"],
)
def test_number_without_end_is_rejected(start, tmp_path):
    pack = b"PACK" + (2).to_bytes(4, "big") + (1).to_bytes(4, "big") + start + b"\xff" * 2_000_000

    with processor_time_limit(5), pytest.raises((ValueError, zlib.error)) as caught:
        check(pack, 1_000, tmp_path)
    assert not isinstance(caught.value, TooLargePack)


def test_pack_of_too_many_objects_is_too_large(tmp_path):
    with pytest.raises(TooLargePack):
        check(b"PACK" + (2).to_bytes(4, "big") + (5_000_001).to_bytes(4, "big"), 1_000, tmp_path)


@pytest.mark.parametrize("kind", [OFFSET_DELTA, REFERENCE_DELTA])
def test_objects_are_found_by_their_ids(kind, tmp_path):
    base = bytes(range(256)) * 40
    content = pack_with_delta(kind, base, base + b"more")
    entries = check(content, 512_000, tmp_path)
    pack = Pack(content, index_of(entries), 512_000)

    assert {len(pack.read(object_id)[1]) for object_id, _ in entries} == {len(base), len(base) + 4}
    assert [pack.size(object_id) for object_id, _ in entries] == [
        len(pack.read(object_id)[1]) for object_id, _ in entries
    ]
    assert pack.size(b"\0" * 20) is None
    assert pack.read(b"\0" * 20) is None
    assert pack.read(b"\xff" * 20) is None
    for object_id, _ in entries:
        assert pack.read(object_id)[1] == {len(base): base}.get(len(pack.read(object_id)[1]), base + b"more")


def test_deltas_in_a_circle_are_rejected():
    delta = zlib.compress(b"\x05\x05\x90\x05")
    ids = [b"\1" * 20, b"\2" * 20]
    objects = [bytes([0x74]) + other + delta for other in reversed(ids)]
    content = b"PACK" + (2).to_bytes(4, "big") + (2).to_bytes(4, "big") + b"".join(objects) + b"\0" * 20
    pack = Pack(content, index_of([(ids[0], 12), (ids[1], 12 + len(objects[0]))]), 1_000)

    with processor_time_limit(5), pytest.raises(ValueError, match="does not end"):
        pack.read(ids[0])
