"""Readers that a content has taken over: each sends messages that no reader of the product sends."""

import orjson

ADDRESS = "https://example.org/a"
ID = "0123456789" * 4


ROBOTS = {
    "no JSON": b"{",
    "control character": [[[True, "/a\x00"]], 0.0, []],
    "long pattern": [[[True, "/" * 2_002]], 0.0, []],
    "negative pause": [[], -1.0, []],
    "other scheme": [[], 0.0, ["file:///etc/passwd"]],
    "many rules": [[[True, "/"]] * 20_002, 0.0, []],
}
ADDRESSES = {
    "more than requested": [[[ADDRESS] * 6, []]],
    "many in parts": [[[ADDRESS] * 4, []], [[], [ADDRESS] * 2]],
    "line break": [[[ADDRESS + "\nhost: x"], []]],
    "long": [[["https://e/" + "a" * 1_100], []]],
}
ROWS = {
    "unordered": [[["b", ID, 1, None], ["a", ID, 1, None]]],
    "equal": [[["a", ID, 1, None], ["a", ID, 1, None]]],
    "before the start": [[["A", ID, 1, None]]],
    "more than requested": [[[f"b{number:04}", ID, 1, None] for number in range(11)]],
    "NUL": [[["b\0", ID, 1, None]]],
    "no id": [[["b", "../" + ID[3:], 1, None]]],
    "negative size": [[["b", ID, -1, None]]],
}
CONTENTS = {  # by the allowed size
    999: [bytes(20) + b"\0" + (1).to_bytes(8, "big") + b"x"],
    1_000: [bytes.fromhex(ID) + b"\0" + (1_001).to_bytes(8, "big") + bytes(1_001)],
}


def _forging(cases, field):
    """Return a reader that sends the messages of the case that an option names."""

    def read(options, files):
        del files
        for message in cases[options[field]]:
            yield message if isinstance(message, bytes) else orjson.dumps(message)

    return read


READERS = {
    "robots": _forging({name: [message] for name, message in ROBOTS.items()}, "address"),
    "addresses": _forging(ADDRESSES, "base"),
    "entries": _forging(ROWS, "path"),
    "contents": _forging(CONTENTS, "most"),
}
