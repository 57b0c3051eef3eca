"""Models in the ONNX format, read and written without the package `onnx`, which would add 18 MB to each installation.

ONNX files are protocol buffers: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto3. A message is a sequence of
fields. A field is its number and wire type, then an integer, four bytes, or a length and as many bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_INTEGER, _BYTES, _FLOAT = 0, 2, 5  # wire types
_GRAPH, _INITIALIZER = 7, 5  # numbers of fields
_MORE = 0x80  # the bit of a byte that more bytes of its integer follow
_TYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype("<f4"),
    2: np.dtype("u1"),
    3: np.dtype("i1"),
    7: np.dtype("<i8"),
    9: np.dtype("?"),
}
_NUMBERS = {dtype: number for number, dtype in _TYPES.items()}
_IR_VERSION = 10
_OPSETS = {"": 18, "com.microsoft": 1}


def read_tensors(path: Path) -> dict[str, Array]:
    """Return the weights of a model by name. They are read from the disk when they are used."""
    content = np.memmap(path, dtype=np.uint8, mode="r")
    graph = next(value for number, value in _fields(content) if number == _GRAPH)
    return dict(_tensor(value) for number, value in _fields(graph) if number == _INITIALIZER)


def _tensor(message: Array) -> tuple[str, Array]:
    shape: list[int] = []
    name, kind, content = "", 0, np.empty(0, np.uint8)
    for number, value in _fields(message):
        match number:
            case 1:
                shape += [value] if isinstance(value, int) else _integers(value)
            case 2:
                kind = value
            case 8:
                name = value.tobytes().decode()
            case 9:
                content = value
    return name, content.view(_TYPES[kind]).reshape(shape)


def _fields(message: Array) -> Iterator[tuple[int, Any]]:
    """Yield the number and value of each field: an integer, or the bytes as an array."""
    position = 0
    while position < len(message):
        key, position = _integer(message, position)
        number, wire = key >> 3, key & 7
        if wire == _INTEGER:
            value, position = _integer(message, position)
            yield number, value
        elif wire == _BYTES:
            size, position = _integer(message, position)
            yield number, message[position : position + size]
            position += size
        else:
            position += 4 if wire == _FLOAT else 8


def _integer(message: Array, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = int(message[position])
        position += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < _MORE:
            return value, position


def _integers(message: Array) -> list[int]:
    values, position = [], 0
    while position < len(message):
        value, position = _integer(message, position)
        values.append(value)
    return values


@dataclass
class Graph:
    """A model that is being written: constants, and operations in the order of their execution."""

    _initializers: list[bytes] = field(default_factory=list)
    _nodes: list[bytes] = field(default_factory=list)
    _names: int = 0

    def constant(self, value: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> str:
        """Add an array, and return its name."""
        array = np.asarray(value, dtype=dtype)  # zero dimensions stay, unlike with ascontiguousarray
        name = self._name()
        shape = b"".join(_varint(1, size) for size in array.shape)
        kind = _varint(2, _NUMBERS[array.dtype])
        self._initializers.append(
            _block(_INITIALIZER, shape + kind + _block(8, name.encode()) + _block(9, array.tobytes()))
        )
        return name

    def add(self, operator: str, *inputs: str, domain: str = "", outputs: int = 1, **attributes: Any) -> Any:
        """Add an operation, and return the name of its output, or the names of its outputs."""
        names = [self._name() for _ in range(outputs)]
        content = b"".join(_block(1, name.encode()) for name in inputs)
        content += b"".join(_block(2, name.encode()) for name in names)
        content += _block(4, operator.encode()) + _block(7, domain.encode())
        content += b"".join(_block(5, _attribute(name, value)) for name, value in attributes.items())
        self._nodes.append(_block(1, content))
        return names[0] if outputs == 1 else names

    def model(self, inputs: Sequence[str], output: str) -> bytes:
        """Return the model as bytes of an ONNX file. Inputs and output contain floats."""
        graph = b"".join(self._nodes) + _block(2, b"graph") + b"".join(self._initializers)
        graph += b"".join(_block(11, _float_value(name)) for name in inputs) + _block(12, _float_value(output))
        opsets = (_block(8, _block(1, name.encode()) + _varint(2, version)) for name, version in _OPSETS.items())
        return _varint(1, _IR_VERSION) + _block(_GRAPH, graph) + b"".join(opsets)

    def _name(self) -> str:
        self._names += 1
        return f"v{self._names}"


def _attribute(name: str, value: float | Sequence[int]) -> bytes:
    if isinstance(value, float):
        content = _key(2, _FLOAT) + struct.pack("<f", value) + _varint(20, 1)
    elif isinstance(value, int):
        content = _varint(3, value) + _varint(20, 2)
    else:
        content = b"".join(_varint(8, each) for each in value) + _varint(20, 7)
    return _block(1, name.encode()) + content


def _float_value(name: str) -> bytes:
    return _block(1, name.encode()) + _block(2, _block(1, _varint(1, 1)))


def _varint(number: int, value: int) -> bytes:
    return _key(number, _INTEGER) + _encoded(value)


def _block(number: int, content: bytes) -> bytes:
    return _key(number, _BYTES) + _encoded(len(content)) + content


def _key(number: int, wire: int) -> bytes:
    return _encoded(number << 3 | wire)


def _encoded(value: int) -> bytes:
    value &= (1 << 64) - 1  # negative numbers have ten bytes
    encoded = bytearray()
    while value >= _MORE:
        encoded.append(value & 0x7F | _MORE)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
