"""Readers with every fault, for a confined process."""

import os
import sys
import time

from shared.domain.errors import Unreadable


def echo(options, files):
    for file in files:
        yield file.read()
    yield str(options.get("text", "")).encode()


def count(options, files):
    """Yield its process and numbers without end."""
    del options, files
    yield str(os.getpid()).encode()
    number = 0
    while True:
        yield str(number).encode()
        number += 1


def spin(options, files):
    del options, files
    while True:
        pass
    yield b""


def sleep(options, files):
    del options, files
    yield b"first"
    time.sleep(600)


def fill(options, files):
    del options, files
    yield str(len(bytearray(2 << 30))).encode()


def deep(options, files):
    yield from deep(options, files)


def refuse(options, files):
    del options, files
    yield b"first"
    raise Unreadable("line 7 is not an address", detail="here")


def fail(options, files):
    del options, files
    yield b"first"
    raise ValueError("a bug")


def crash(options, files):
    del options, files
    os.kill(os.getpid(), 11)
    yield b""


def large(options, files):
    del files
    yield bytes(options["bytes"])


def forge(options, files):
    """Write to the worker without the protocol."""
    del files
    os.write(3, options["text"].encode("latin-1"))
    sys.stdout.flush()
    time.sleep(600)
    yield b""


def open_file(options, files):
    del files
    with open(options["path"], "rb") as file:  # noqa: PTH123
        yield file.read()


def process(options, files):
    del options, files
    yield str(os.getpid()).encode()


READERS = {
    each.__name__: each
    for each in (echo, count, spin, sleep, fill, deep, refuse, fail, crash, large, forge, open_file, process)
}
