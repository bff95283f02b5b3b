"""tests/vectors/v1/canonical.json: documents with their one spelling, and texts that are none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hubbub.canonical import canonical_bytes, read_json

__all__ = ["canonical", "is_canonical", "is_read"]

_LARGEST = 2**53 - 1


def canonical() -> dict[str, Any]:
    return {
        "documents": [{"document": document, "canonical": canonical_bytes(document).decode()} for document in _good()],
        "texts": [
            {"hex": raw.hex(), "shown": raw.decode("latin-1"), "read": is_read(raw), "canonical": is_canonical(raw)}
            for raw in _texts()
        ],
    }


def is_read(raw: bytes) -> bool:
    """Whether these bytes are read at all."""
    try:
        read_json(raw)
    except ValueError:
        return False
    return True


def is_canonical(raw: bytes) -> bool:
    """Whether they are the one spelling of what they say."""
    return is_read(raw) and canonical_bytes(read_json(raw)) == raw


def _good() -> Iterator[Any]:
    yield from (None, True, False, 0, -1, _LARGEST, -_LARGEST, "", [], {}, [[]], {"": {}})
    yield {"b": 1, "a": [1, 2, {"d": None, "c": True}], "B": 0, "aa": 1, "_": 2, "0": 3, "10": 4, "9": 5}
    yield {"\uffff": 1, "\U00010000": 2, "\ue000": 3, "z": 4, "\u00e9": 5, "e\u0301": 6}  # not the order of UTF-16
    yield "".join(map(chr, range(0x20)))
    yield "\"\\/\x7f\x80\u00a0\u2028\u2029\ufeff<>&'"
    yield ["\u00e9", "e\u0301", "\U0001f600", "\U0010ffff", "\uffff", "\ufffd"]
    yield {"\x7f": "\x7f", "\u0000": "\u0000", '"': "\\"}


def _texts() -> Iterator[bytes]:
    yield from (b"", b" ", b"{", b"[1,]", b"{'a':1}", b"{a:1}", b"01", b"+1", b".5", b"1.", b"tru", b"TRUE", b"1 2")
    yield from (b"nul", b"undefined", b"[1 2]", b'{"a" 1}', b'{"a":}', b'"a', b'"\\x41"', b'"\\u12"', b'"\n"', b'"\t"')
    yield from (b"1.0", b"-1.5", b"1e3", b"1E3", b"NaN", b"Infinity", b"-Infinity", b"-0", b"-0.0", b"0", b"-1")
    for number in (_LARGEST, _LARGEST + 1, _LARGEST + 2, 10**30):
        yield from (str(number).encode(), str(-number).encode())
    yield from (b'{"a":1,"a":1}', b'{"a":1,"\\u0061":2}', b'{"b":1,"a":2}', b'{"a":2,"b":1}', b'{"a":{"c":1,"b":2}}')
    yield from (b'{"a": 1}', b'{"a":1} ', b' {"a":1}', b'{"a":1}\n', b"\xef\xbb\xbf{}", b"[1, 2]", b"[1,2]")
    yield from ('"\u00e9"'.encode(), b'"\\u00e9"', b'"\\u00E9"', b'"\xe9"', b'"e\\u0301"', b'"\\u0041"', b'"A"')
    yield from (b'"\\/"', b'"/"', b'"\\u002f"', b'"\\b\\f\\n\\r\\t"', b'"\\u0008"', b'"\\u000b"', b'"\\u000B"')
    yield from (b'"\x7f"', b'"\\u007f"', b'"\x1f"', b'"\\u001f"', b'"\\u0022"', b'"\\""', b'"\\u005c"', b'"\\\\"')
    yield from (b'"\\ud83d\\ude00"', b'"\\uD83D\\uDE00"', b'"\\ud83d"', b'"\\ude00"', b'"\\ude00\\ud83d"')
    yield from (b'{"\\ud800":1}', b'["\\udfff"]', b'"\x00"', b'"\\u0000"', b"\x00", b"/**/1", b"// a\n1")
    yield b'{"\\ud800\\udc00":1,"\\uffff":2}'
    yield b'{"\\uffff":2,"\\ud800\\udc00":1}'
    yield b"[" * 40 + b"]" * 40
    for levels in (64, 65):
        yield b"[" * levels + b"]" * levels
        yield b'{"a":' * levels + b"1" + b"}" * levels
        yield b'[{"a":' * (levels // 2) + b"[]" * (levels % 2) + b"0" * (1 - levels % 2) + b"}]" * (levels // 2)
