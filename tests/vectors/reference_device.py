"""Reference device: Hubbub's protocol page in plain Python, with nothing of Hubbub imported.

It was written from `docs/reference/protocol.md` alone, to find out whether that page is enough; where the page left
something open, the vectors decided. Names follow the page. Nearly all of it is pure functions, so that a vector can
drive each one. `Device` joins them.
"""

import base64
import hashlib
import hmac
import json
import math
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from fractions import Fraction
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

LARGEST_INTEGER = 2**53 - 1
LARGEST_ENVELOPE = 8 * 2**20
W = 2**64
WEEK, DAY, LONGEST = 604_800, 86_400, 520 * 604_800
YEAR_10000 = 253_402_300_800
SUITE = "x25519-hkdf-sha256-aes-128-gcm"
LARGEST_DOUBLE = sys.float_info.max
REMEMBERED = 255
LANES = ("steady", "occasional")

Bytes = Callable[[int], bytes]
"""A source of randomness: the next n bytes of it. `os.urandom` is one."""


class Refused(Exception):
    """A document breaks a rule. `error` is the name that the page gives to the refusal, where it has one."""

    def __init__(self, why: str, error: str = "") -> None:
        super().__init__(why)
        self.error = error


def require(holds: bool, why: str) -> None:
    if not holds:
        raise Refused(why)


# Canonical JSON and decimal text

ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def quoted(text: str) -> str:
    """A JSON string in ASCII."""
    parts = []
    for char in text:
        code = ord(char)
        if char in ESCAPES:
            parts.append(ESCAPES[char])
        elif 0x20 <= code <= 0x7E:
            parts.append(char)
        elif 0xD800 <= code <= 0xDFFF:
            raise Refused("half of a surrogate pair is no character")
        elif code > 0xFFFF:
            parts.append(f"\\u{0xD800 + (code - 0x10000 >> 10):04x}\\u{0xDC00 + (code - 0x10000 & 0x3FF):04x}")
        else:
            parts.append(f"\\u{code:04x}")
    return '"' + "".join(parts) + '"'


def written(value: Any, deep: int = 0) -> str:
    """A document as canonical JSON."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        require(abs(value) <= LARGEST_INTEGER, "the integer is too large for JSON")
        return str(value)
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, list | tuple):
        require(deep < 64, "the JSON has too many levels")
        return "[" + ",".join(written(item, deep + 1) for item in value) + "]"
    require(isinstance(value, dict), "canonical JSON has no such value")
    require(deep < 64, "the JSON has too many levels")
    return "{" + ",".join(f"{quoted(name)}:{written(value[name], deep + 1)}" for name in sorted(value)) + "}"


def canonical(value: Any) -> bytes:
    """A document as canonical JSON, in bytes."""
    return written(value).encode("ascii")


def parse_canonical(text: bytes) -> Any:
    """The document, if these bytes are the canonical JSON of it."""
    try:
        value = json.loads(text.decode("ascii"))
        again = canonical(value)
    except (ValueError, RecursionError) as error:
        raise Refused(f"not JSON: {error}") from error
    require(again == text, "the JSON is not canonical")
    return value


DECIMAL = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]*[1-9])?")


def decimal(text: Any) -> Fraction:
    """The exact number that decimal text says."""
    require(isinstance(text, str) and len(text) <= 400 and bool(DECIMAL.fullmatch(text)), "not decimal text")
    require(text != "-0", "zero is written 0")
    value = Fraction(text)
    require(len(text.lstrip("-").replace(".", "").strip("0")) <= 50, "more than 50 digits")
    require(value == 0 or Fraction(1, 10**300) <= abs(value) < 10**301, "too large or too small")
    return value


def is_integer(value: Any, low: int, high: int = LARGEST_INTEGER) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def is_id(value: Any) -> bool:
    return isinstance(value, str) and bool(re.fullmatch("[0-9a-f]{32}", value))


def from_base64url(text: str) -> bytes:
    """Bytes of base64url without padding, with zero spare bits."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError as error:
        raise Refused("not base64url") from error
    require(base64.urlsafe_b64encode(data).rstrip(b"=").decode() == text, "not the one spelling of these bytes")
    return data


# Periods


def is_length(seconds: Any) -> bool:
    return is_integer(seconds, 1, LONGEST) and (DAY % seconds == 0 or seconds % DAY == 0)


def origin(length: int) -> int:
    """Where period 0 begins: for whole weeks on Monday 1969-12-29."""
    return -259_200 if length % WEEK == 0 else 0


def period_of(time: float, length: int) -> int:
    """The index of the period that holds a time."""
    require(0 <= time < YEAR_10000, "no period holds this time")
    index = (math.floor(time) - origin(length)) // length
    require(is_period(index, length), "no such period")
    return index


def is_period(index: int, length: int) -> bool:
    return 0 <= index < 2**32 and end_of(index, length) < YEAR_10000


def start_of(index: int, length: int) -> int:
    return origin(length) + index * length


def end_of(index: int, length: int) -> int:
    return start_of(index, length) + length


def utc_date(time: float) -> str:
    return datetime.fromtimestamp(math.floor(time), UTC).date().isoformat()


# Draws


def bits(take: Bytes, n: int) -> int:
    """A uniform integer of n bits: the upper bits of the next whole bytes."""
    size = (n + 7) // 8
    return int.from_bytes(take(size), "big") >> (8 * size - n) if n else 0


def below(take: Bytes, n: int) -> int:
    """Uniform on 0 to n - 1."""
    width = (n - 1).bit_length()
    while True:
        x = bits(take, width)
        if x < n:
            return x


def coin(take: Bytes, a: int, b: int) -> bool:
    """True with probability a / b, which is not reduced."""
    return below(take, b) < a


def pick(take: Bytes, weights: Sequence[int]) -> int:
    """Index i with probability weights[i] / sum."""
    x = below(take, sum(weights))
    total = 0
    passed = 0
    for weight in weights:
        total += weight
        passed += total <= x
    return passed


def coin_exp(take: Bytes, a: int, b: int) -> bool:
    """True with probability exp(-a / b)."""
    while a > b:
        if not coin_exp(take, 1, 1):
            return False
        a -= b
    k = 1
    while coin(take, a, b * k):
        k += 1
    return k % 2 == 1


def discrete_laplace(take: Bytes, scale: int, rate: int) -> int:
    """Probability of y in proportion to exp(-|y| rate / scale)."""
    while True:
        r = below(take, scale)
        if not coin_exp(take, r, scale):
            continue
        k = 0
        while coin_exp(take, 1, 1):
            k += 1
        y = (r + scale * k) // rate
        negative = coin(take, 1, 2)
        if not (negative and y == 0):
            return -y if negative else y


def coins(take: Bytes, n: int, a: int, places: int) -> int:
    """n bits at once, each 1 with probability a / 2^places."""
    if a == 2**places:
        return (1 << n) - 1
    while places > 0 and a % 2 == 0:
        a, places = a // 2, places - 1
    x = bits(take, n * places)
    found = 0
    for i in range(places):
        word = (x >> (i * n)) % 2**n
        found = found | word if a >> i & 1 else found & word
    return found


def subset(take: Bytes, n: int, k: int) -> list[int]:
    """k of 0 to n - 1, ascending, by Floyd's method."""
    chosen: set[int] = set()
    for last in range(n - k, n):
        x = below(take, last + 1)
        chosen.add(last if x in chosen else x)
    return sorted(chosen)


def subset_bits(take: Bytes, n: int, k: int) -> int:
    """k of n as the 1 bits of an integer: by coins that are mended, or one by one if k is small."""
    if 16 * k < n:
        return sum(1 << i for i in subset(take, n, k))
    found = coins(take, n, (256 * k + n // 2) // n, 8)
    off = found.bit_count() - k
    there = [i for i in range(n) if (found >> i & 1) == (off > 0)]
    for j in subset(take, len(there), abs(off)):
        found ^= 1 << there[j]
    return found


# Mechanisms


def symbol_bytes(s: int) -> int:
    return ((s - 1).bit_length() + 7) // 8


def symbol(y: int, s: int) -> bytes:
    """One of s symbols, big-endian."""
    return y.to_bytes(symbol_bytes(s), "big")


def packed(z: int, n: int) -> bytes:
    """n bits, little-endian."""
    return z.to_bytes((n + 7) // 8, "little")


def rr(take: Bytes, x: int, keep: int) -> bytes:
    truth = coin(take, keep, W)
    return symbol(x if truth else 1 - x, 2)


def krr(take: Bytes, x: int, d: int, keep: int) -> bytes:
    lie = (x + 1 + below(take, d - 1)) % d
    truth = coin(take, keep, W)
    return symbol(x if truth else lie, d)


def matrix(take: Bytes, x: int, columns: Sequence[Sequence[int]]) -> bytes:
    return symbol(pick(take, columns[x]), len(columns[x]))


def subset_size(d: int, k: int) -> int:
    """Bits of a payload of `subset`: a list of places if that is shorter than a bit for each value."""
    return min(k * (d - 1).bit_length(), d)


def set_of(take: Bytes, x: int, d: int, k: int, truth: tuple[int, int]) -> int:
    """k of d values as the 1 bits of an integer, x among them with the probability `truth`."""
    others = subset_bits(take, d - 1, k - 1)
    last = below(take, d - 1)
    while others >> last & 1:
        last = below(take, d - 1)
    chosen = others | 1 << (d - 1 if coin(take, *truth) else last)
    turn = (x + 1) % d
    return int(((chosen << turn) | (chosen >> (d - turn))) % 2**d)


def subset_report(take: Bytes, x: int, d: int, k: int, keep: int) -> bytes:
    chosen = set_of(take, x, d, k, (keep, W))
    w = (d - 1).bit_length()
    if k * w < d:
        places = [v for v in range(d) if chosen >> v & 1]
        return packed(sum(p << (i * w) for i, p in enumerate(places)), k * w)
    return packed(chosen, d)


def linear_hash(take: Bytes, x: int, d: int, t: int, keep: int) -> bytes:
    """`hadamard` is the same with t = 1."""
    g, w = 2**t, (d - 1).bit_length()
    masks = below(take, 2 ** (t * w))
    bucket = sum((((masks >> (i * w)) % 2**w & x).bit_count() % 2) << i for i in range(t))
    lie = (bucket + 1 + below(take, g - 1)) % g
    truth = coin(take, keep, W)
    return packed((masks << t) | (bucket if truth else lie), t * (w + 1))


def olh_digits(d: int, g: int) -> int:
    digits = 1
    while g**digits < d:
        digits += 1
    return digits


def olh(take: Bytes, x: int, d: int, g: int, keep: int) -> bytes:
    digits = olh_digits(d, g)
    hashed = below(take, g**digits)
    bucket = sum((hashed // g**i % g) * (x // g**i % g) for i in range(digits)) % g
    lie = (bucket + 1 + below(take, g - 1)) % g
    truth = coin(take, keep, W)
    return symbol(hashed * g + (bucket if truth else lie), g ** (digits + 1))


def unary(take: Bytes, x: int, d: int, flip: int, keep: int) -> bytes:
    """`oue` and `sue`, which differ in keep."""
    noise = coins(take, d, flip, 64)
    one = coin(take, keep, W)
    return packed(noise & ~(1 << x) | one << x, d)


def place(x: Fraction, lower: Fraction, upper: Fraction) -> tuple[int, int]:
    """Where x, clamped to the bounds, lies between them, as (up, whole), not reduced."""
    a, b = lower.numerator, lower.denominator
    u, v = (upper - lower).numerator, (upper - lower).denominator
    p, q = x.numerator, x.denominator
    up, whole = (p * b - a * q) * v, q * b * u
    if up <= 0:
        return 0, 1
    if up >= whole:
        return 1, 1
    return up, whole


def point(take: Bytes, at: tuple[int, int], m: int) -> int:
    """A grid point 0 to m, rounded at random."""
    up, whole = at
    below_it = up * m // whole
    rest = up * m - below_it * whole
    return below_it + coin(take, rest, whole)


def duchi(take: Bytes, at: tuple[int, int], keep: int) -> bytes:
    end = point(take, at, 1)
    truth = coin(take, keep, W)
    return symbol(end if truth else 1 - end, 2)


def laplace(take: Bytes, at: tuple[int, int], scale: int, rate: int, steps: int, reach: int) -> bytes:
    y = point(take, at, steps) + discrete_laplace(take, scale, rate)
    y = min(max(y, -reach), steps + reach)
    return symbol(y + reach, steps + 2 * reach + 1)


def piecewise_weights(i: int, p: Mapping[str, Any]) -> list[int]:
    """The weights of all symbols for grid point i."""
    first = i * p["stride"]
    size = p["steps"] * p["stride"] + p["window"]
    return [p["high"] if first <= j < first + p["window"] else p["low"] for j in range(size)]


def hybrid_weights(i: int, p: Mapping[str, Any]) -> list[int]:
    m, low, high, outer = p["steps"], p["low"], p["high"], p["outer"]
    weights = [p["inner"] * weight for weight in piecewise_weights(i, p)] if p["inner"] > 0 else []
    if outer > 0:
        weights += [outer * (high * (m - i) + low * i), outer * (low * (m - i) + high * i)]
    return weights


def table_symbols(columns: Sequence[Sequence[int]], steps: int) -> list[tuple[int, int, int, int]]:
    """All symbols as (first, last, weight, moment): the columns, then their mirror images in reverse order."""
    listed = [(first, last, weight, moment) for first, last, weight, moment in columns]
    mirrored = [(steps - b, steps - a, weight, -moment) for a, b, weight, moment in reversed(listed) if a + b < steps]
    return listed + mirrored


def table_weights(i: int, p: Mapping[str, Any]) -> list[int]:
    symbols = table_symbols(p["columns"], p["steps"])
    return [weight * (p["high"] if first <= i <= last else p["low"]) for first, last, weight, _ in symbols]


WEIGHTS = {"piecewise": piecewise_weights, "hybrid": hybrid_weights, "table": table_weights}


def weighted(take: Bytes, at: tuple[int, int], name: str, p: Mapping[str, Any]) -> bytes:
    """`piecewise`, `hybrid` and `table`: a grid point, then one pick by its weights."""
    weights = WEIGHTS[name](point(take, at, p["steps"]), p)
    return symbol(pick(take, weights), len(weights))


# The codebook

LABEL_CODEBOOK = b"hubbub-01 codebook\0"
LABEL_METRIC = b"hubbub-01 metric\0"
TEXTS = {
    "duchi": ["keep"],
    "hadamard": ["keep"],
    "hybrid": ["low", "high"],
    "krr": ["keep"],
    "ladder": ["low", "high"],
    "laplace": ["scale", "rate", "reach"],
    "linear-hash": ["keep"],
    "olh": ["keep"],
    "oue": ["flip"],
    "piecewise": ["low", "high"],
    "rr": ["keep"],
    "subset": ["keep"],
    "sue": ["flip"],
    "table": ["low", "high"],
    "tree": ["low", "high"],
    "matrix": [],
}
NUMBERS = {
    "hybrid": ["steps", "stride", "window", "inner", "outer"],
    "laplace": ["steps"],
    "linear-hash": ["bits"],
    "olh": ["buckets"],
    "piecewise": ["steps", "stride", "window"],
    "subset": ["count"],
    "table": ["steps"],
}
LISTS = {"matrix": ["columns"], "table": ["columns"], "ladder": ["sets", "windows"], "tree": ["sets"]}
MEANS = {"laplace", "duchi", "piecewise", "hybrid", "table"}
OVER_BINS = {"ladder", "tree"}
REDUCERS = {
    "boolean": {"first", "last", "max", "min", "most_common", "reservoir"},
    "category": {"first", "last", "most_common", "reservoir"},
    "mean": {"first", "last", "sum", "max", "min", "mean", "median", "count", "reservoir"},
    "distribution": {"first", "last", "sum", "max", "min", "mean", "median", "count", "reservoir"},
    "count": {"sum", "first", "last", "max", "min", "count", "reservoir"},
}


def digits(value: Any) -> int:
    """An integer that is written as text."""
    require(isinstance(value, str) and bool(re.fullmatch("0|[1-9][0-9]{0,999}", value)), "not digits in a string")
    return int(value)


def read_parameters(name: str, given: Any) -> dict[str, Any]:
    """The parameters of a mechanism as integers."""
    texts, numbers = TEXTS[name], NUMBERS.get(name, [])
    lists = LISTS.get(name, [])
    require(isinstance(given, dict) and set(given) == {*texts, *numbers, *lists}, "other parameters than these")
    p: dict[str, Any] = {key: digits(given[key]) for key in texts}
    for key in numbers:
        require(is_integer(given[key], 0), f"{key} is not a number")
        p[key] = given[key]
    for key in lists if name in OVER_BINS else []:
        rows, width = given[key], 3 if key == "sets" else 2
        require(isinstance(rows, list) and all(isinstance(row, list) and len(row) == width for row in rows), key)
        require(all(is_integer(entry, 1, WHOLE) for row in rows for entry in row), key)
        p[key] = rows
    if "columns" in lists:
        columns = given["columns"]
        require(isinstance(columns, list) and all(isinstance(c, list) for c in columns), "columns are no lists")
        if name == "matrix":
            p["columns"] = [[digits(weight) for weight in column] for column in columns]
        else:
            require(all(len(c) == 4 and all(is_integer(v, -(2**53)) for v in c) for c in columns), "not four numbers")
            p["columns"] = columns
    return p


WHOLE = 65_536


@dataclass(frozen=True)
class Component:
    """One component of `ladder` or `tree` over d bins: `count` cells of `width` bins, or a window (`count` 0)."""

    d: int
    width: int
    count: int

    @property
    def cells(self) -> int:
        return -(-self.d // self.width)

    @property
    def levels(self) -> tuple[int, int]:
        """How near and far reports weigh against each other."""
        return (self.count, self.cells - self.count) if self.count else (self.width, self.d - 1)

    @property
    def listed(self) -> int:
        """Bits of a cell in a list, or 0 if a bit for each cell but the last is shorter."""
        w = (self.cells - 1).bit_length()
        return w if self.count * w < self.cells - 1 else 0

    @property
    def bits(self) -> int:
        if not self.count:
            return (self.d + self.width - 2).bit_length()
        return self.count * self.listed or self.cells - 1

    def draw(self, take: Bytes, x: int, low: int, high: int) -> int:
        near, far = self.levels
        truth = near * high, near * high + far * low
        if self.count:
            c = self.cells
            chosen = set_of(take, x // self.width, c, self.count, truth)
            if not self.listed:
                return chosen % (1 << c - 1)
            places = [v for v in range(c) if chosen >> v & 1]
            return sum(place << (i * self.listed) for i, place in enumerate(places))
        inside, outside = below(take, near), below(take, far)
        return x + inside if coin(take, *truth) else outside + (self.width if outside >= x else 0)


def components(p: Mapping[str, Any], d: int) -> list[tuple[Component, int]]:
    """The components with their weights: sets first, then windows."""
    sets = [(Component(d, width, count), weight) for width, count, weight in p["sets"]]
    return sets + [(Component(d, width, 0), weight) for width, weight in p.get("windows", [])]


def prefix(p: Mapping[str, Any], d: int, which: int) -> tuple[int, int]:
    """What stands before the bits of a component, and how many bits that is."""
    many = len(components(p, d))
    if many == 1:
        return 0, 0
    return (1 | (which - 1) << 1, 1 + (many - 2).bit_length()) if which else (0, 1)


def mixture_bits(p: Mapping[str, Any], d: int) -> int:
    return max(prefix(p, d, i)[1] + one.bits for i, (one, _) in enumerate(components(p, d)))


def mixture(take: Bytes, x: int, d: int, p: Mapping[str, Any]) -> bytes:
    """`ladder` and `tree`."""
    every = components(p, d)
    which = pick(take, [weight for _, weight in every])
    number, bits_before = prefix(p, d, which)
    drawn = every[which][0].draw(take, x, p["low"], p["high"])
    return packed(number | drawn << bits_before, mixture_bits(p, d))


def check_mixture(p: Mapping[str, Any], d: int) -> None:
    """The rules of `ladder` and `tree`, beside the ratio."""
    require(d <= 256, "too many bins")
    every = components(p, d)
    require(1 <= len(every) <= 32 and sum(weight for _, weight in every) == WHOLE, "components or weights")
    for key in ("sets", "windows"):
        require(all(one[0] < two[0] for one, two in pairwise(p.get(key, []))), f"{key} are not in order")
    require(1 <= p["low"] < p["high"], "low or high")
    require(bool(p.get("windows")) or p["sets"][0][0] == 1, "bins cannot be told apart")
    for one, _ in every:
        require(one.width < d and (one.count == 0 or one.count < one.cells), "a component does not fit the bins")
        near, far = one.levels
        require(near * p["high"] + far * p["low"] <= 2**63, "low and high are too large")


def is_prime(n: int) -> bool:
    return n > 1 and all(n % f for f in range(2, math.isqrt(n) + 1))


def check_table(p: Mapping[str, Any]) -> None:
    """The rules of `table`, beside the ratio."""
    m, columns = p["steps"], p["columns"]
    require(1 <= m <= 64 and 1 <= p["low"] < p["high"] and len(columns) > 0, "steps, low, high or columns")
    pairs = [(first, last) for first, last, _, _ in columns]
    require(all(one < two for one, two in pairwise(pairs)), "columns are not in order")
    for first, last, weight, moment in columns:
        require(0 <= first <= last and first + last <= m, "a column leans to the right")
        require(weight >= 1 and abs(moment) <= 2**53 and (moment == 0 or first + last < m), "weight or moment")
    symbols = table_symbols(columns, m)
    require(len(symbols) <= 256, "too many symbols")
    over = [[s for s in symbols if s[0] <= i <= s[1]] for i in range(m + 1)]
    require(len({sum(s[2] for s in covering) for covering in over}) == 1, "the points are not covered alike")
    moments = [sum(s[3] for s in covering) for covering in over]
    rises = {two - one for one, two in pairwise(moments)}
    require(len(rises) == 1 and min(rises) > 0, "the moments do not rise evenly")
    require(sum(table_weights(0, p)) <= 2**63, "the weights are too large")


def check_pieces(name: str, p: Mapping[str, Any]) -> None:
    """The rules of `piecewise` and `hybrid`, beside the ratio."""
    m, stride, window, low, high = p["steps"], p["stride"], p["window"], p["low"], p["high"]
    size, total = m * stride + window, window * high + m * stride * low
    require(1 <= m <= 64 and stride >= 1 and window >= 1 and size <= 256 and 1 <= low < high, "a piece out of range")
    if name == "hybrid":
        inner, outer = p["inner"], p["outer"]
        require(inner > 0 or outer > 0, "neither half")
        size = (size if inner else 0) + (2 if outer else 0)
        total = inner * total + outer * m * (low + high)
    require(size <= 256 and total <= 2**63, "too many symbols, or too large weights")


def ratio(name: str, p: Mapping[str, Any], d: int) -> Fraction:
    """The largest ratio of the probabilities of one report. For `laplace`, the logarithm of it."""
    if name in {"rr", "duchi"}:
        require((name == "duchi" or d == 2) and W // 2 < p["keep"] < W, "keep")
        return Fraction(p["keep"], W - p["keep"])
    if name in {"krr", "hadamard", "linear-hash", "olh"}:
        g = d
        if name == "olh":
            g = p["buckets"]
            require(g < 256 and is_prime(g), "buckets is no prime below 256")
        elif name != "krr":
            require(1 <= p.get("bits", 1) <= 10, "bits")
            g = 2 ** p.get("bits", 1)
        require(W < g * p["keep"] < g * W, "keep")
        return Fraction(p["keep"] * (g - 1), W - p["keep"])
    if name == "subset":
        k = p["count"]
        require(0 < k < d and k * W < d * p["keep"] < d * W, "count or keep")
        return Fraction(p["keep"] * (d - k), (W - p["keep"]) * k)
    if name in {"oue", "sue"}:
        flip = p["flip"]
        require(0 < 2 * flip < W, "flip")
        keep = unary_keep(name, flip)
        return Fraction(keep * (W - flip), flip * (W - keep))
    if name == "matrix":
        columns = p["columns"]
        require(d <= 64 and len(columns) == d and len(columns[0]) >= d, "the matrix has another shape")
        require(all(len(c) == len(columns[0]) and sum(c) == W for c in columns), "a column does not sum to 2^64")
        rows = [row for row in zip(*columns, strict=True) if any(row)]
        require(all(min(row) > 0 for row in rows), "a zero stands beside a weight")
        return max(Fraction(max(row), min(row)) for row in rows)
    if name == "laplace":
        require(all(p[key] >= 1 for key in ("scale", "rate", "reach", "steps")) and p["steps"] <= 64, "a zero")
        require(p["reach"] * p["rate"] * 10**11 >= 2_772_588_722_240 * p["scale"], "reach")
        return Fraction(p["steps"] * p["rate"], p["scale"])
    if name in OVER_BINS:
        check_mixture(p, d)
    elif name == "table":
        check_table(p)
    else:
        check_pieces(name, p)
    return Fraction(p["high"], p["low"])


def unary_keep(name: str, flip: int) -> int:
    return W // 2 if name == "oue" else W - flip


def at_most_exp(claimed: Fraction, epsilon: Fraction) -> bool:
    """Whether a ratio is at most e^epsilon, by a series of integers that sums from below."""
    scale = term = 2**256
    total = i = 0
    while term:
        total += term
        i += 1
        term = term * epsilon.numerator // (epsilon.denominator * i)
    return claimed.numerator * scale <= total * claimed.denominator


def check_claim(name: str, p: Mapping[str, Any], d: int, epsilon: Fraction) -> None:
    """Refuse a mechanism that does not keep its epsilon."""
    claimed = ratio(name, p, d)
    holds = claimed <= epsilon if name == "laplace" else at_most_exp(claimed, epsilon)
    require(holds, "the mechanism spends more than epsilon")


def payload_bytes(name: str, p: Mapping[str, Any], d: int) -> int:
    """The length of each payload of a mechanism."""
    w = (d - 1).bit_length()
    if name in OVER_BINS:
        return (mixture_bits(p, d) + 7) // 8
    if name in {"rr", "duchi"}:
        return 1
    if name in {"subset", "hadamard", "linear-hash", "oue", "sue"}:
        t = p.get("bits", 1)
        n = subset_size(d, p["count"]) if name == "subset" else d if name in {"oue", "sue"} else t * (w + 1)
        return (n + 7) // 8
    if name == "krr":
        return symbol_bytes(d)
    if name == "matrix":
        return symbol_bytes(len(p["columns"][0]))
    if name == "olh":
        return symbol_bytes(int(p["buckets"] ** (olh_digits(d, p["buckets"]) + 1)))
    if name == "laplace":
        return symbol_bytes(p["steps"] + 2 * p["reach"] + 1)
    return symbol_bytes(len(WEIGHTS[name](0, p)))


@dataclass(frozen=True)
class Metric:
    """A metric that a device understood and checked."""

    id: str
    name: str
    type: str
    epsilon: Fraction
    mechanism: str
    parameters: Mapping[str, Any]
    reduce: str
    share_threshold: int
    missing: Any
    enabled: bool
    expires: str | None
    values: Sequence[str] = ()
    other: str | None = None
    lower: Fraction = Fraction(0)
    upper: Fraction = Fraction(1)
    edges: Sequence[Fraction] = ()

    @property
    def d(self) -> int:
        return len(self.edges) - 1 if self.edges else len(self.values) or 2

    @property
    def lane(self) -> str:
        return "occasional" if self.missing is None else "steady"

    @property
    def at_once(self) -> bool:
        """Whether the first value is drawn before the period ends."""
        return self.reduce == "first" and self.missing is None


def randomize(metric: Metric, x: Any, take: Bytes) -> bytes:
    """The payload for an input: an index, or for a mean an exact fraction."""
    name, p, d = metric.mechanism, metric.parameters, metric.d
    if name in MEANS:
        at = place(x, metric.lower, metric.upper)
        if name == "duchi":
            return duchi(take, at, p["keep"])
        if name == "laplace":
            return laplace(take, at, p["scale"], p["rate"], p["steps"], p["reach"])
        return weighted(take, at, name, p)
    if name in OVER_BINS:
        return mixture(take, x, d, p)
    if name == "rr":
        return rr(take, x, p["keep"])
    if name == "krr":
        return krr(take, x, d, p["keep"])
    if name == "matrix":
        return matrix(take, x, p["columns"])
    if name == "subset":
        return subset_report(take, x, d, p["count"], p["keep"])
    if name == "olh":
        return olh(take, x, d, p["buckets"], p["keep"])
    if name in {"oue", "sue"}:
        return unary(take, x, d, p["flip"], unary_keep(name, p["flip"]))
    return linear_hash(take, x, d, p.get("bits", 1), p["keep"])


COMMON = set(
    """
    id name type epsilon mechanism report_bytes reduce share share_threshold missing memoize min_batch
    enabled description owner expires
    """.split()  # noqa: SIM905
)
OF_TYPE = {
    "boolean": set[str](),
    "category": {"values", "other"},
    "mean": {"bounds"},
    "distribution": {"edges"},
    "count": {"edges"},
}
NOT_IN_ID = {"id", "min_batch", "enabled", "description", "owner", "expires", "unit", "notes"}


def metric_id(document: Mapping[str, Any], collection: str, period: int) -> str:
    members = {name: value for name, value in document.items() if name not in NOT_IN_ID}
    about = canonical(members | {"collection": collection, "period": period})
    return hashlib.sha256(LABEL_METRIC + about).hexdigest()[:32]


def is_value(text: Any) -> bool:
    """Whether this can stand in the list of a category."""
    return (
        isinstance(text, str)
        and 1 <= len(text) <= 200
        and unicodedata.is_normalized("NFC", text)
        and all(unicodedata.category(char) not in {"Cc", "Cs", "Zl", "Zp"} for char in text)
    )


def is_date(value: Any) -> bool:
    try:
        return bool(re.fullmatch(r"\d{4}-\d\d-\d\d", value, re.ASCII)) and date.fromisoformat(value) is not None
    except (TypeError, ValueError):
        return False


NOT_IN_UNIT = [
    *((0x0000, 0x001F), (0x007F, 0x00A0), (0x00AD, 0x00AD), (0x0600, 0x0605), (0x061C, 0x061C), (0x06DD, 0x06DD)),
    *((0x070F, 0x070F), (0x0890, 0x0891), (0x08E2, 0x08E2), (0x1680, 0x1680), (0x180E, 0x180E), (0x2000, 0x200F)),
    *((0x2028, 0x202F), (0x205F, 0x206F), (0x3000, 0x3000), (0xD800, 0xF8FF), (0xFEFF, 0xFEFF), (0xFFF0, 0x10FFFF)),
]
"""Characters that no unit has: from and to."""


def read_metric(m: Any, collection: str, period: int, *, bundled: bool = True) -> Metric:
    """The metric, if every rule of it holds."""
    require(isinstance(m, dict) and m.get("type") in tuple(OF_TYPE), "the type is not known")
    kind = m["type"]
    numbers = kind in {"mean", "distribution", "count"}
    may = {"notes"} | ({"unit"} if numbers else set())
    must = COMMON | OF_TYPE[kind]
    require(must <= set(m) <= must | may, "members are missing or unknown")
    require(isinstance(m["name"], str) and bool(re.fullmatch("[a-z][a-z0-9_]{0,63}", m["name"])), "name")
    require(isinstance(m.get("notes", {}), dict), "notes")
    values, other, ends, edges = [], None, ["0", "1"], list[Fraction]()
    if kind == "category":
        values, other = m["values"], m["other"]
        require(isinstance(values, list) and 2 <= len(values) <= 65_536, "values")
        require(all(map(is_value, values)) and len(set(values)) == len(values), "values")
        require(other is None or (isinstance(other, str) and other in values), "other")
    if kind == "mean":
        ends = m["bounds"]
        require(isinstance(ends, list) and len(ends) == 2, "bounds")
    if kind in {"distribution", "count"}:
        require(isinstance(m["edges"], list) and 3 <= len(m["edges"]) <= 257, "edges")
        edges = list(map(decimal, m["edges"]))
        require(all(one < two for one, two in pairwise(edges)), "edges are not in order")
        ends = [m["edges"][0], m["edges"][-1]]
    lower, upper = map(decimal, ends)
    if numbers:
        require(lower < upper, "bounds")
        for size in (lower, upper, upper - lower):
            require(size == 0 or Fraction(1, 10**100) <= abs(size) <= 10**100, "bounds are out of range")
        unit = m.get("unit", "x")
        require(isinstance(unit, str) and 1 <= len(unit) <= 20, "unit")
        require(not any(low <= ord(char) <= high for char in unit for low, high in NOT_IN_UNIT), "unit")
        require(unit == unit.strip(" "), "unit")
    epsilon = decimal(m["epsilon"])
    require(Fraction(1, 10_000) <= epsilon <= 30, "epsilon is out of range")
    d = len(edges) - 1 if edges else len(values) or 2
    mechanism = m["mechanism"]
    require(isinstance(mechanism, dict) and set(mechanism) == {"name", "parameters"}, "mechanism")
    name = mechanism["name"]
    require(isinstance(name, str) and name in TEXTS and (name in MEANS) == (kind == "mean"), "mechanism")
    require((name in OVER_BINS or name == "subset") if edges else name not in OVER_BINS, "mechanism")
    p = read_parameters(name, mechanism["parameters"])
    check_claim(name, p, d, epsilon)
    require(is_integer(m["report_bytes"], 1) and m["report_bytes"] == payload_bytes(name, p, d), "report_bytes")
    require(isinstance(m["reduce"], str) and m["reduce"] in REDUCERS[kind], "reduce")
    share = decimal(m["share"])
    require(0 < share <= 1, "share")
    threshold = digits(m["share_threshold"])
    require(threshold == max(1, math.floor(share * W)), "share_threshold")
    missing = m["missing"]
    if missing is not None:
        if numbers:
            require(lower <= decimal(missing) <= upper, "missing")
        elif kind == "boolean":
            require(isinstance(missing, bool), "missing")
        else:
            require(isinstance(missing, str) and missing in values, "missing")
    require(m["memoize"] is False and isinstance(m["enabled"], bool), "memoize or enabled")
    require(is_integer(m["min_batch"], 2, 1_000_000) or (not bundled and m["min_batch"] is None), "min_batch")
    require(isinstance(m["description"], str) and isinstance(m["owner"], str), "description or owner")
    require(m["expires"] is None or is_date(m["expires"]), "expires")
    require(m["id"] == metric_id(m, collection, period), "the id does not fit")
    return Metric(
        id=m["id"],
        name=m["name"],
        type=kind,
        epsilon=epsilon,
        mechanism=name,
        parameters=p,
        reduce=m["reduce"],
        share_threshold=threshold,
        missing=missing,
        enabled=m["enabled"],
        expires=m["expires"],
        values=values,
        other=other,
        lower=lower,
        upper=upper,
        edges=edges,
    )


@dataclass(frozen=True)
class Page:
    """A codebook that a device can use, with those of its metrics that it understood, by name."""

    id: str
    collection: str
    length: int
    grace: int
    delay: int | None
    device_epsilon: Fraction
    metrics: Mapping[str, Metric]
    refused: frozenset[str]
    document: Mapping[str, Any] = field(repr=False)

    @property
    def longest_delay(self) -> int:
        """Milliseconds."""
        return 500 * self.grace if self.delay is None else 1000 * self.delay

    @property
    def enabled_epsilon(self) -> Fraction:
        return sum((m.epsilon for m in self.metrics.values() if m.enabled), Fraction(0))


def codebook_id(document: Mapping[str, Any]) -> str:
    about = canonical({name: value for name, value in document.items() if name != "id"})
    return hashlib.sha256(LABEL_CODEBOOK + about).hexdigest()[:32]


def read_codebook(document: Any, *, bundled: bool = True) -> Page:
    """The codebook without the metrics that are refused, or a refusal of all of it."""
    require(isinstance(document, dict), "a codebook is an object")
    must = {"format", "id", "collection", "metrics"}
    require(must <= set(document) <= must | {"notes"}, "members are missing or unknown")
    require(document["format"] == "hubbub-codebook 1", "format")
    require(isinstance(document.get("notes", {}), dict), "notes")
    require(is_id(document["id"]) and document["id"] == codebook_id(document), "the id does not fit")
    c = document["collection"]
    must = {"name", "period", "grace", "forward_horizon", "device_epsilon", "release", "honest_fraction"}
    require(isinstance(c, dict) and must <= set(c) <= must | {"delay", "notes"}, "members of collection")
    require(isinstance(c["name"], str) and bool(re.fullmatch("[a-z][a-z0-9_-]{0,63}", c["name"])), "name")
    require(is_length(c["period"]), "period")
    require(is_integer(c["grace"], 1, LONGEST) and is_integer(c["forward_horizon"], 1, LONGEST), "grace or horizon")
    delay = c.get("delay")
    require("delay" not in c or (is_integer(delay, 1, LONGEST) and 2 * delay <= c["grace"]), "delay")
    device_epsilon = decimal(c["device_epsilon"])
    require(device_epsilon > 0 and isinstance(c.get("notes", {}), dict), "device_epsilon or notes")
    release = c["release"]
    require(isinstance(release, dict) and set(release) == {"epsilon", "delta"}, "release")
    require(decimal(release["epsilon"]) > 0 and 0 < decimal(release["delta"]) < 1, "release")
    require(0 < decimal(c["honest_fraction"]) <= 1, "honest_fraction")
    entries = document["metrics"]
    require(isinstance(entries, list) and len(entries) > 0, "metrics")
    names: list[Any] = [entry.get("name") if isinstance(entry, dict) else None for entry in entries]
    require(all(isinstance(name, str) for name in names), "a metric has no name")
    require(names == sorted(set(names)), "metrics are not sorted by name")
    metrics: dict[str, Metric] = {}
    refused: set[str] = set()
    for name, entry in zip(names, entries, strict=True):
        try:
            metrics[name] = read_metric(entry, c["name"], c["period"], bundled=bundled)
        except Refused:
            refused.add(name)
    page = Page(
        id=document["id"],
        collection=c["name"],
        length=c["period"],
        grace=c["grace"],
        delay=delay,
        device_epsilon=device_epsilon,
        metrics=metrics,
        refused=frozenset(refused),
        document=document,
    )
    require(page.enabled_epsilon <= device_epsilon, "the metrics spend more than device_epsilon")
    return page


# The bundle

LABEL_BUNDLE = b"hubbub-01 bundle\0"
SECOND_LINE = re.compile(rb"ed25519:([A-Za-z0-9_-]{43}) ([A-Za-z0-9_-]{86})")


@dataclass(frozen=True)
class Key:
    """A sealing key of a bundle."""

    id: int
    suite: str
    public_key: bytes
    first_period: int
    last_period: int
    state: str

    def covers(self, period: int) -> bool:
        return self.first_period <= period <= self.last_period


@dataclass(frozen=True)
class Bundle:
    """A body that follows the rules. A page that is refused is None."""

    collection: str
    sequence: int
    issued: int
    expires: int
    max_age: int
    length: int
    smallest_grace: int
    pages: Sequence[tuple[int, Page | None]]
    outlines: Sequence[tuple[int, Mapping[str, bool]]]
    keys: Sequence[Key]
    off: frozenset[str]
    digest: str

    def page_of(self, period: int) -> Page | None:
        """The codebook of a period: the last one that begins by then, even if it is refused."""
        begun = [page for first, page in self.pages if first <= period]
        return begun[-1] if begun else None

    def outline_of(self, period: int) -> dict[str, bool] | None:
        """The ids in the codebook of a period with whether they are on, even if this device refuses the codebook."""
        begun = [ids for first, ids in self.outlines if first <= period]
        return {name: on and name not in self.off for name, on in begun[-1].items()} if begun else None

    def key_of(self, period: int) -> Key | None:
        """The key of a period, if this device can use it."""
        for key in self.keys:
            if key.state != "revoked" and key.suite == SUITE and key.covers(period):
                return key
        return None

    def is_on(self, metric: Metric) -> bool:
        return metric.enabled and metric.id not in self.off

    @property
    def longest_spread(self) -> int:
        """Milliseconds."""
        return min(120_000, 250 * self.smallest_grace)


def read_envelope(envelope: bytes, anchors: Sequence[str] | None) -> tuple[str, bytes]:
    """The signer and the body, by rules 1 to 5. Without anchors any signer will do."""
    lines = [*envelope.split(b"\n", 2), b"", b""]
    if len(envelope) > LARGEST_ENVELOPE or lines[0] != b"hubbub-bundle 1":
        raise Refused("not an envelope", "MalformedBundle")
    form = SECOND_LINE.fullmatch(lines[1])
    try:
        require(form is not None, "the second line has another form")
        assert form is not None
        public, signature = from_base64url(form[1].decode()), from_base64url(form[2].decode())
    except Refused as refused:
        raise Refused(str(refused), "MalformedBundle") from refused
    signer = f"ed25519:{form[1].decode()}"
    if anchors is not None and signer not in anchors:
        raise Refused("another signer", "UntrustedBundle")
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, LABEL_BUNDLE + lines[2])
    except (InvalidSignature, ValueError) as error:
        raise Refused("the signature does not fit", "BadSignature") from error
    return signer, lines[2]


FIELD = 2**255 - 19
LOW_ORDER = {
    *(0, 1, FIELD - 1),
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
}


def read_key(k: Any) -> Key:
    require(isinstance(k, dict), "a key is an object")
    require(is_integer(k.get("id"), 0, 255) and is_text(k.get("suite")), "id or suite")
    require(is_text(k.get("public_key")), "public_key")
    public = from_base64url(k["public_key"])
    if k["suite"] == SUITE:
        require(len(public) == 32, "the public key has another length")
        require(int.from_bytes(public, "little") % 2**255 % FIELD not in LOW_ORDER, "the public key has low order")
    first, last = k.get("first_period"), k.get("last_period")
    require(is_integer(first, 0, 2**32 - 1) and is_integer(last, 0, 2**32 - 1) and first <= last, "periods of a key")
    require(k.get("state") in ("pending", "active", "revoked"), "state")
    return Key(k["id"], k["suite"], public, first, last, k["state"])


def check_outline(document: Any, collection: str) -> None:
    """What the bundle itself asks of a codebook."""
    require(isinstance(document, dict) and isinstance(document.get("collection"), dict), "a codebook is an object")
    c, metrics = document["collection"], document.get("metrics")
    require(c.get("name") == collection and is_length(c.get("period")), "name or period")
    for member in ("grace", "forward_horizon"):
        require(is_integer(c.get(member), 1, 314_496_000), member)
    require(isinstance(metrics, list) and all(isinstance(m, dict) for m in metrics), "metrics")
    for m in metrics:
        require(is_id(m.get("id")) and is_text(m.get("name")), "id or name of a metric")
        require(is_integer(m.get("report_bytes"), 1) and is_integer(m.get("min_batch"), 2), "size of a metric")
        require(isinstance(m.get("enabled"), bool), "enabled")
    for member in ("id", "name"):
        require(len({m[member] for m in metrics}) == len(metrics), "two metrics are alike")


@lru_cache(maxsize=8)
def read_body(body: bytes) -> Bundle:
    """The body, by rules 6 and 7."""
    try:
        b = parse_canonical(body)
        require(isinstance(b, dict) and b.get("format") == "hubbub-bundle 1", "format")
        require(is_text(b.get("collection")), "collection")
        require(all(is_integer(b.get(name), 0) for name in ("sequence", "issued", "expires", "max_age")), "a number")
        require(b["expires"] > b["issued"], "expires")
        require(isinstance(b.get("codebooks"), list) and len(b["codebooks"]) > 0, "codebooks")
        require(isinstance(b.get("keys"), list), "keys")
        for entry in b["codebooks"]:
            require(isinstance(entry, dict) and is_integer(entry.get("first_period"), 0, 2**32 - 1), "first_period")
            check_outline(entry.get("codebook"), b["collection"])
        firsts = [entry["first_period"] for entry in b["codebooks"]]
        require(firsts == sorted(set(firsts)), "codebooks are not in order")
        collections = [entry["codebook"]["collection"] for entry in b["codebooks"]]
        require(len({c["period"] for c in collections}) == 1, "two lengths of periods")
        keys = [read_key(key) for key in b["keys"]]
        require(len({key.id for key in keys}) == len(keys), "two keys have one id")
        usable = sorted((k.first_period, k.last_period) for k in keys if k.state != "revoked")
        require(all(a[1] < z[0] for a, z in pairwise(usable)), "two keys cover a period")
        off = b.get("off", ["0" * 32])
        require(isinstance(off, list) and len(off) > 0 and all(map(is_id, off)), "off")
        require(off == sorted(set(off)), "off is not in order")
    except Refused as refused:
        raise Refused(str(refused), "MalformedBundle") from refused
    return Bundle(
        collection=b["collection"],
        sequence=b["sequence"],
        issued=b["issued"],
        expires=b["expires"],
        max_age=b["max_age"],
        length=collections[0]["period"],
        smallest_grace=min(c["grace"] for c in collections),
        pages=[(entry["first_period"], page_or_none(entry["codebook"])) for entry in b["codebooks"]],
        outlines=[
            (entry["first_period"], {m["id"]: m["enabled"] for m in entry["codebook"]["metrics"]})
            for entry in b["codebooks"]
        ],
        keys=keys,
        off=frozenset(b.get("off", ())),
        digest=hashlib.sha256(body).hexdigest(),
    )


def page_or_none(document: Any) -> Page | None:
    try:
        return read_codebook(document)
    except Refused:
        return None


def check_newest(bundle: Bundle, seen: tuple[int, str] | None) -> None:
    """Rule 9: seen is the sequence and the digest of the newest bundle ever accepted."""
    if seen is not None and (bundle.sequence < seen[0] or (bundle.sequence == seen[0] and bundle.digest != seen[1])):
        raise Refused("older than one that was accepted, or another of the same number", "RolledBackBundle")


def verify(envelope: bytes, anchors: Sequence[str] | None, now: float, seen: tuple[int, str] | None = None) -> Bundle:
    """The bundle in an envelope, if all nine rules hold."""
    _, body = read_envelope(envelope, anchors)
    bundle = read_body(body)
    if now >= bundle.expires:
        raise Refused("the bundle has expired", "ExpiredBundle")
    check_newest(bundle, seen)
    return bundle


def tag(envelope: bytes) -> str:
    """What `If-None-Match` says of a kept envelope."""
    return f'"{hashlib.sha256(envelope).hexdigest()[:32]}"'


# Values and reducers


def taken(metric: Metric, value: Any) -> Any:
    """A recorded value as it is kept."""
    if metric.type == "boolean":
        require(isinstance(value, bool), "not a boolean")
        return value
    if metric.type == "category":
        require(isinstance(value, str), "not a string")
        composed = unicodedata.normalize("NFC", value)
        kept = composed if composed in metric.values else metric.other
        require(kept is not None, "not in the list, which has no other")
        return kept
    require(isinstance(value, int | float) and not isinstance(value, bool), "not a number")
    require(not (isinstance(value, float) and math.isnan(value)), "not a number")
    if abs(value) == math.inf or (isinstance(value, int) and abs(value) > int(LARGEST_DOUBLE)):
        return float(metric.upper if value > 0 else metric.lower)
    return float(value)


State = dict[str, Any]


def reduce(reducer: str, state: State | None, v: Any, take: Bytes) -> State:
    """The state after one more value. Before the first one it is None."""
    if state is None:
        first: dict[str, Any] = {"median": [v], "most_common": [[v, 1]], "count": 1}
        return {"n": 1, "kept": first.get(reducer, v)}
    n, kept = state["n"] + 1, state["kept"]
    if reducer == "last":
        kept = v
    elif reducer == "sum":
        kept = max(-LARGEST_DOUBLE, min(LARGEST_DOUBLE, kept + v))
    elif reducer == "max":
        kept = v if v > kept else kept
    elif reducer == "min":
        kept = v if v < kept else kept
    elif reducer == "mean":
        kept = (kept - kept / n) + v / n
    elif reducer == "count":
        kept = n
    elif reducer == "reservoir":
        kept = v if coin(take, 1, n) else kept
    elif reducer == "median":
        if len(kept) < REMEMBERED:
            kept = [*kept, v]
        elif coin(take, REMEMBERED, n):
            at = below(take, REMEMBERED)
            kept = [*kept[:at], v, *kept[at + 1 :]]
    elif reducer == "most_common":
        kept = counted(kept, v)
    return {"n": n, "kept": kept}


def counted(seen: list[Any], v: Any) -> list[Any]:
    """The pairs (value, count) with one more value."""
    if any(value == v for value, _ in seen):
        return [[value, count + (value == v)] for value, count in seen]
    if len(seen) < REMEMBERED:
        return [*seen, [v, 1]]
    least = min(count for _, count in seen)
    at = next(i for i, (_, count) in enumerate(seen) if count == least)
    return [*seen[:at], [v, least + 1], *seen[at + 1 :]]


def reduced(reducer: str, state: State) -> Any:
    """The one value that a state stands for."""
    kept = state["kept"]
    if reducer == "count":
        return float(kept)
    if reducer == "median":
        ordered = sorted(kept)
        middle = len(ordered) // 2
        return ordered[middle] if len(ordered) % 2 else ordered[middle - 1] / 2 + ordered[middle] / 2
    if reducer == "most_common":
        most = max(count for _, count in kept)
        return next(value for value, count in kept if count == most)
    return kept


def input_of(metric: Metric, value: Any) -> Any:
    """The input of the mechanism, from a reduced value or `missing`."""
    if metric.type == "boolean":
        require(isinstance(value, bool), "not a boolean")
        return int(value)
    if metric.type == "category":
        require(isinstance(value, str), "not a string")
        listed = value if value in metric.values else metric.other
        require(listed is not None, "not in the list, which has no other")
        return list(metric.values).index(listed or "")
    require(isinstance(value, str | float), "not a double")
    number = decimal(value) if isinstance(value, str) else Fraction(value)
    return sum(edge <= number for edge in metric.edges[1:-1]) if metric.edges else number


# The budget


@dataclass(frozen=True)
class Limits:
    """What no codebook can raise."""

    pin: frozenset[str] | None = None
    min_period: int = 3600
    max_epsilon: Fraction | None = Fraction(8)
    lifetime_epsilon: Fraction | None = None

    def against(self, page: Page) -> str | None:
        """The outcome of recording by a page that these limits exclude, or None."""
        if self.pin is not None and page.id not in self.pin:
            return "disabled"
        caps = [cap for cap in (self.max_epsilon, self.lifetime_epsilon) if cap is not None]
        if page.length < self.min_period or any(page.enabled_epsilon > cap for cap in caps):
            return "over_budget"
        return None


Entry = dict[str, Any]


def overlapping(entries: Sequence[Entry], start: int, end: int) -> list[Entry]:
    return [entry for entry in entries if entry["end"] > start and entry["start"] < end]


def decision(entries: Sequence[Entry], name: str, start: int, end: int, closed_until: int = 0) -> str | None:
    """The decision that holds for a metric's name and a period."""
    near = [entry for entry in overlapping(entries, start, end) if entry["metric"] == name]
    taken_here = {entry["decision"] for entry in near}
    for strongest in ("spent", "closed", "refused", "out of share"):
        if strongest in taken_here:
            return strongest
    if closed_until > start:
        return "closed"
    if any(entry["start"] == start and entry["end"] == end for entry in near):
        return "charged"
    return "refused" if near else None


def charges(entries: Sequence[Entry]) -> Fraction:
    return sum((decimal(e["epsilon"]) for e in entries if e["decision"] in ("charged", "spent")), Fraction(0))


def has_room(
    entries: Sequence[Entry],
    epsilon: Fraction,
    start: int,
    end: int,
    day: int,
    limits: Limits,
    device_epsilon: Fraction,
) -> bool:
    """Whether lifetime, UTC day and period all have room for one more charge."""
    if limits.lifetime_epsilon is not None and charges(entries) + epsilon > limits.lifetime_epsilon:
        return False
    today = [entry for entry in entries if entry["day"] == day]
    if limits.max_epsilon is not None and charges(today) + epsilon > limits.max_epsilon:
        return False
    near = overlapping(entries, start, end)
    return not any(e["decision"] == "closed" for e in near) and charges(near) + epsilon <= device_epsilon


# Plaintext, seal, upload

ZERO_SALT = b""
LABEL_REPORT = b"hubbub-01 report\0"
HPKE = b"HPKE-v1"
SUITE_NUMBERS = b"\x00\x20\x00\x01\x00\x01"


def plaintext(period: int, nonce: bytes, payload: bytes) -> bytes:
    return period.to_bytes(4, "big") + nonce + payload


def info(metric: str, key_id: int) -> bytes:
    return LABEL_REPORT + bytes.fromhex(metric) + SUITE_NUMBERS + bytes([key_id])


def extract(salt: bytes, data: bytes) -> bytes:
    return hmac.digest(salt, data, "sha256")


def labeled_extract(suite: bytes, salt: bytes, label: bytes, data: bytes) -> bytes:
    return extract(salt, HPKE + suite + label + data)


def labeled_expand(suite: bytes, prk: bytes, label: bytes, about: bytes, n: int) -> bytes:
    """At most 32 bytes, so one block of HKDF is enough."""
    return extract(prk, n.to_bytes(2, "big") + HPKE + suite + label + about + b"\x01")[:n]


def seal(public_key: bytes, about: bytes, text: bytes, ephemeral: bytes | None = None) -> bytes:
    """HPKE in base mode: enc || ciphertext. Only a vector gives the ephemeral private key."""
    private = X25519PrivateKey.generate() if ephemeral is None else X25519PrivateKey.from_private_bytes(ephemeral)
    enc = private.public_key().public_bytes_raw()
    try:
        shared = private.exchange(X25519PublicKey.from_public_bytes(public_key))
    except ValueError as error:
        raise Refused("the public key is a point of low order") from error
    kem, whole = b"KEM" + SUITE_NUMBERS[:2], b"HPKE" + SUITE_NUMBERS
    prk = labeled_extract(kem, ZERO_SALT, b"eae_prk", shared)
    secret = labeled_expand(kem, prk, b"shared_secret", enc + public_key, 32)
    context = b"\x00" + labeled_extract(whole, ZERO_SALT, b"psk_id_hash", b"")
    context += labeled_extract(whole, ZERO_SALT, b"info_hash", about)
    prk = labeled_extract(whole, secret, b"secret", b"")
    key = labeled_expand(whole, prk, b"key", context, 16)
    iv = labeled_expand(whole, prk, b"base_nonce", context, 12)
    return enc + AESGCM(key).encrypt(iv, text, b"")


def report(metric: str, period: int, key_id: int, sealed: bytes) -> bytes:
    return b"\x01" + bytes.fromhex(metric) + period.to_bytes(4, "big") + bytes([key_id]) + sealed


def upload(reports: Sequence[bytes]) -> bytes:
    """The body of an upload."""
    return b"".join(len(one).to_bytes(2, "big") + one for one in reports)


def in_requests(sizes: Sequence[int]) -> list[range]:
    """Which reports share a request: at most 1,000 of them and 512 KiB; a larger report goes alone."""
    requests, first, total = [], 0, 0
    for i, size in enumerate(sizes):
        if i > first and (i - first == 1000 or total + 2 + size > 512 * 2**10):
            requests.append(range(first, i))
            first, total = i, 0
        total += 2 + size
    return [*requests, range(first, len(sizes))] if sizes else []


# Answers


@dataclass(frozen=True)
class Answer:
    """An HTTP answer. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").split(";")[0].strip().lower()


VERDICTS = {
    "drop": """
    wrong-length unknown-metric metric-disabled period-closed malformed-report malformed-batch
    batch-too-small batch-conflict batch-too-late invalid-query
    """,
    "retry": """
    unsupported-media-type period-in-future overloaded storage-full rate-limited no-bundle clock-in-doubt
    unauthorized not-found method-not-allowed nothing-released not-ready internal-error
    """,
    "split": "malformed-upload too-large",
    "fetch the bundle": "unknown-key revoked-key",
}
REFUSALS = {name: verdict for verdict, names in VERDICTS.items() for name in names.split()}
PROBLEM = "urn:hubbub:problem:"
LARGEST_JSON = 2**18


def json_object(answer: Answer, media_type: str) -> dict[str, Any]:
    """The object that an answer holds, or an empty one."""
    if answer.media_type != media_type or len(answer.body) > LARGEST_JSON:
        return {}
    try:
        value = json.loads(answer.body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def verdicts(answer: Answer | None, n: int) -> list[tuple[str, str | None]]:
    """For each of n reports the verdict, and the name of the refusal if it is known."""
    if answer is None:
        return [("retry", None)] * n
    if answer.status == 202 and answer.body == b"":
        return [("durable", None)] * n
    if answer.status == 200:
        failures = json_object(answer, "application/json").get("failures")
        found: list[tuple[str, str | None]] = [("durable", None)] * n
        if not isinstance(failures, list):
            return [("retry", None)] * n
        for failure in failures:
            if not isinstance(failure, dict) or not is_integer(failure.get("index"), 0, n - 1):
                return [("retry", None)] * n
            reason = failure.get("reason")
            if not isinstance(reason, str):
                return [("retry", None)] * n
            reason = reason.removeprefix(PROBLEM)
            found[failure["index"]] = (REFUSALS.get(reason, "retry"), reason if reason in REFUSALS else None)
        return found
    if answer.status >= 400:
        kind = json_object(answer, "application/problem+json").get("type")
        name = kind.removeprefix(PROBLEM) if isinstance(kind, str) and kind.startswith(PROBLEM) else ""
        if name in REFUSALS:
            return [(REFUSALS[name], name)] * n
        if answer.status == 413:
            return [("split", None)] * n
    return [("retry", None)] * n


def retry_after(answer: Answer | None) -> int:
    """The seconds that an answer asks to wait; 0 if it does not."""
    asked = answer.headers.get("retry-after", "").strip() if answer is not None else ""
    if not re.fullmatch("[0-9]+", asked):
        return 0
    return int(asked) if len(asked) <= 4 and int(asked) <= 3600 else 3600


def pointless(found: Mapping[int, str], wait: int) -> bool:
    """Whether it is no use to send more."""
    return wait > 0 or all(verdict == "retry" for verdict in found.values())


def delivered(places: Sequence[int], post: Callable[[Sequence[int]], Answer | None]) -> tuple[dict[int, str], int]:
    """Send the reports at these places, in halves if need be: the last verdict on each, and the wait."""
    answer = post(places)
    wait = 0 if answer is not None and answer.status == 202 and answer.body == b"" else retry_after(answer)
    found, again = {}, []
    for place_in_upload, (verdict, name) in zip(places, verdicts(answer, len(places)), strict=True):
        found[place_in_upload] = "retry" if verdict == "split" else verdict
        alone = len(places) == 1 or (answer is not None and answer.status == 200)
        if verdict == "split" and alone and name is not None:
            found[place_in_upload] = "drop"
        elif verdict == "split" and not alone:
            again.append(place_in_upload)
    half = len(again) // 2
    for part in (again[:half], again[half:]):
        if part and wait == 0:
            last, wait = delivered(part, post)
            found |= last
            if pointless(last, wait):
                break
    return found, wait


def backoff(take: Bytes, k: int, longest: int = 900) -> float:
    """Seconds to wait after the k-th failure in a row."""
    return float(min(0.5 * 2 ** min(k, 20), longest) * below(take, 1001) / 1000)


# The device

Transport = Callable[[str, str, Mapping[str, str], bytes], Answer | None]
"""Sends method, URL, headers and body. None stands for no answer in time."""


@dataclass
class Device:
    """One device. `storage` holds JSON only, and `save` puts it on stable storage."""

    address: str
    anchors: Sequence[str] | None
    transport: Transport
    clock: Callable[[], float]
    values: Bytes
    coins: Callable[[str, str, int], Bytes]
    storage: dict[str, Any]
    limits: Limits = Limits()
    consent: Callable[[], bool] = lambda: True
    save: Callable[[], None] = lambda: None
    shipped: Page | None = None
    bundle: Bundle | None = None
    refused: bool = False
    waiting: list[tuple[str, Any, float]] = field(default_factory=list)
    pages: dict[str, Page] = field(default_factory=dict)

    def __post_init__(self) -> None:
        s = self.storage
        for name in ("pins", "codebooks", "states"):
            s.setdefault(name, {})
        s.setdefault("outbox", [])
        if "ledger" not in s and s["pins"]:
            self.lose_ledger()
        s.setdefault("ledger", [])
        for name in ("waits", "pauses", "failures"):
            s.setdefault(name, dict.fromkeys(LANES, 0))
        if "envelope" in s:
            try:
                _, body = read_envelope(s["envelope"].encode("ascii"), self.trusted)
                self.bundle = read_body(body)
                check_newest(self.bundle, self.seen)
            except Refused:
                self.bundle, self.refused = None, True
        self.agreed()

    @property
    def trusted(self) -> Sequence[str] | None:
        return self.anchors if self.anchors is not None or "signer" not in self.storage else [self.storage["signer"]]

    @property
    def seen(self) -> tuple[int, str] | None:
        return (self.storage["sequence"], self.storage["digest"]) if "sequence" in self.storage else None

    def lose_ledger(self) -> None:
        """Close all that has begun: the ledger is gone, or older than it was."""
        self.storage["closed_until"] = math.floor(self.clock()) + 1
        self.storage["closed_day"] = math.floor(self.clock()) // DAY
        self.storage["lifetime_used"] = True

    # Consent and the bundle

    def agreed(self) -> bool:
        """Whether there is consent now. Since when is kept."""
        if self.consent() is not True:
            return False
        self.storage.setdefault("consent_since", self.clock())
        return True

    def forget(self) -> None:
        self.storage["states"].clear()
        self.storage["outbox"].clear()
        self.storage.pop("consent_since", None)
        self.waiting.clear()
        self.save()

    def usable(self, now: float) -> bool:
        """Whether there is a bundle, it has not expired, and no other one was refused since."""
        return self.bundle is not None and not self.refused and now < self.bundle.expires

    def fresh(self, now: float) -> bool:
        b, fetched = self.bundle, self.storage.get("fetched", 0)
        return b is not None and not self.refused and bool(fetched <= now < min(fetched + b.max_age, b.expires))

    def stale(self, now: float, *, flush: bool) -> bool:
        """Whether it is time to fetch. The timer spreads its fetches."""
        b, fetched = self.bundle, self.storage.get("fetched", 0)
        if b is None or self.refused or now < fetched or now >= b.expires:
            return True
        return bool(now >= fetched + b.max_age + (0 if flush else self.storage["spread"] / 1000))

    def fetch(self, *, flush: bool = False) -> None:
        """Ask for the bundle, and keep it if it is accepted."""
        now, s = self.clock(), self.storage
        if not self.agreed() or self.held("steady", now, flush=flush):
            return
        headers = {"User-Agent": "hubbub", "Accept-Encoding": "identity"}
        asked = self.bundle is not None and now < self.bundle.expires
        if asked:
            headers["If-None-Match"] = tag(s["envelope"].encode("ascii"))
        answer = self.transport("GET", self.address.rstrip("/") + "/v1/bundle", headers, b"")
        if answer is not None and answer.status == 200 and len(answer.body) <= LARGEST_ENVELOPE:
            try:
                signer, _ = read_envelope(answer.body, self.trusted)
                bundle = verify(answer.body, self.trusted, now, self.seen)
            except Refused:
                self.refused = True
                self.failed("steady")
                return
            self.bundle = bundle
            s |= {"envelope": answer.body.decode("ascii"), "digest": bundle.digest, "signer": signer}
            s["sequence"] = bundle.sequence
        elif not (answer is not None and answer.status == 304 and asked):
            self.failed("steady", retry_after(answer))
            return
        assert self.bundle is not None
        self.refused = False
        s |= {"fetched": now, "spread": below(self.coins("spread", "", 0), self.bundle.longest_spread + 1)}
        self.succeeded("steady")
        self.save()
        waiting, self.waiting = self.waiting, []
        for name, value, time in waiting:
            self.record(name, value, time)

    def failed(self, lane: str, wait: int = 0) -> None:
        """Wait as was asked, and let the timer pause for longer with each failure in a row."""
        s, now = self.storage, self.clock()
        k = s["failures"][lane]
        s["failures"][lane] = k + 1
        s["pauses"][lane] = now + backoff(self.coins("backoff", lane, k), k)
        for one in LANES if lane == "steady" else (lane,):
            s["waits"][one] = max(s["waits"][one], now + wait)
        self.save()

    def succeeded(self, lane: str) -> None:
        """The next failure is the first in a row."""
        self.storage["failures"][lane] = self.storage["pauses"][lane] = 0

    def held(self, lane: str, now: float, *, flush: bool) -> bool:
        """Whether a lane has to wait. `flush` does not heed the timer's pauses."""
        wait, pause = self.storage["waits"][lane], self.storage["pauses"][lane]
        return now < wait <= now + 3600 or (not flush and now < pause <= now + 900)

    # Periods and decisions

    @staticmethod
    def pin_name(start: int, end: int) -> str:
        return f"{start}-{end}"

    def pinned_page(self, pin: Mapping[str, Any]) -> Page:
        name = pin["codebook"]
        if name not in self.pages:
            self.pages[name] = read_codebook(self.storage["codebooks"][name])
        return self.pages[name]

    def decided(self, name: str, start: int, end: int) -> str | None:
        return decision(self.storage["ledger"], name, start, end, self.storage.get("closed_until", 0))

    def pin(self) -> None:
        """Pin the periods that are open, and decide on each of their metrics."""
        now, b, s = self.clock(), self.bundle, self.storage
        if b is None or not self.fresh(now) or not self.agreed():
            return
        since = min(s["consent_since"], now)
        readable = [page for _, page in b.pages if page is not None]
        longest = max((page.grace for page in readable), default=0)
        newest = period_of(now, b.length)
        for index in range(newest, max(newest - 64, 0) - 1, -1):
            start, end = start_of(index, b.length), end_of(index, b.length)
            if now >= end + longest:
                break
            page, key = b.page_of(index), b.key_of(index)
            if page is None or now >= end + page.grace or since >= end:
                continue
            sealing = None if key is None else {"id": key.id, "public_key": key.public_key.hex()}
            name = self.pin_name(start, end)
            if name not in s["pins"]:
                if self.limits.against(page) is None:
                    pin = {"index": index, "start": start, "end": end, "closes": end + page.grace, "key": sealing}
                    s["pins"][name] = pin | {"codebook": page.id}
                    s["codebooks"][page.id], self.pages[page.id] = page.document, page
                    self.decide_all(page, start, end, now)
            elif s["pins"][name]["key"] is None:
                s["pins"][name]["key"] = sealing
        self.save()

    def decide_all(self, page: Page, start: int, end: int, now: float) -> None:
        assert self.bundle is not None
        for metric in page.metrics.values():
            if self.bundle.is_on(metric) and not (metric.expires is not None and metric.expires <= utc_date(start)):
                take = self.coins("share", metric.name, period_of(start, page.length))
                self.decide(metric, page, start, end, now, coin(take, metric.share_threshold, W))

    def decide(self, metric: Metric, page: Page, start: int, end: int, now: float, wanted: bool) -> None:
        ledger, day = self.storage["ledger"], math.floor(now) // DAY
        if self.decided(metric.name, start, end) is not None:
            return
        outcome = "out of share"
        if wanted:
            room = has_room(ledger, metric.epsilon, start, end, day, self.limits, page.device_epsilon)
            if self.storage.get("closed_day") == day and self.limits.max_epsilon is not None:
                room = False
            if self.storage.get("lifetime_used") and self.limits.lifetime_epsilon is not None:
                room = False
            outcome = "charged" if room else "refused"
        entry = {"metric": metric.name, "start": start, "end": end, "decision": outcome, "day": day}
        entry["epsilon"] = epsilon_text(page, metric.name) if outcome == "charged" else "0"
        ledger.append(entry)

    # Record

    def record(self, name: str, value: Any, time: float | None = None) -> str:
        """Reduce one value. The outcome says what became of it."""
        now = self.clock()
        time = now if time is None else time
        b = self.bundle
        if not self.agreed():
            return "disabled"
        if b is None and self.shipped is None:
            if len(self.waiting) < 1000:
                self.waiting.append((name, value, time))
            return "waiting"
        if b is not None and now >= b.expires:
            return "expired"
        length = b.length if b is not None else self.shipped.length if self.shipped is not None else DAY
        index = period_of(time, length)
        start, end = start_of(index, length), end_of(index, length)
        pin = self.storage["pins"].get(self.pin_name(start, end))
        page = self.pinned_page(pin) if pin else b.page_of(index) if b is not None else self.shipped
        if page is None:
            return "invalid"
        against = self.limits.against(page)
        if against is not None:
            return against
        metric = page.metrics.get(name)
        if metric is None:
            return "invalid"
        if not metric.enabled or (b is not None and not b.is_on(metric)):
            return "disabled"
        if metric.expires is not None and metric.expires <= utc_date(now):
            return "expired"
        try:
            kept = taken(metric, value)
        except Refused:
            return "invalid"
        if now >= end + page.grace:
            return "expired"
        held = self.decided(name, start, end)
        if held == "out of share":
            return "not_in_share"
        if held == "spent" and metric.reduce == "first":
            return "recorded"
        if held in ("refused", "closed", "spent"):
            return "over_budget"
        if pin and held is None:
            return "disabled"
        self.add(metric, start, end, kept, time, end + page.grace)
        return "recorded"

    def add(self, metric: Metric, start: int, end: int, kept: Any, time: float, closes: float) -> None:
        """Reduce a value into the state of its metric and period."""
        states, name = self.storage["states"], f"{metric.name} {self.pin_name(start, end)}"
        old = states.get(name)
        if old is not None and old["reducer"] != metric.reduce:
            old = None
        state = reduce(metric.reduce, old["state"] if old else None, kept, self.values)
        about = {"reducer": metric.reduce, "first": old["first"] if old else time, "state": state}
        states[name] = about | {"end": end, "closes": closes}
        self.save()

    # Settle

    def settle(self, lane: str) -> None:
        """Turn the values of a lane into reports, where it is time."""
        now = self.clock()
        if not self.agreed() or not self.usable(now):
            return
        pins = sorted(self.storage["pins"].values(), key=lambda pin: -pin["start"])
        for pin in pins:
            if pin["start"] <= now < pin["closes"]:
                page = self.pinned_page(pin)
                for metric in page.metrics.values():
                    if metric.lane == lane:
                        self.settle_one(pin, page, metric, now)

    def settle_one(self, pin: Mapping[str, Any], page: Page, metric: Metric, now: float) -> None:
        s, start, end = self.storage, pin["start"], pin["end"]
        held = self.decided(metric.name, start, end)
        if held == "charged" and now < end and not metric.at_once:
            return
        name = f"{metric.name} {self.pin_name(start, end)}"
        state = s["states"].get(name)
        if state is None and metric.missing is None:
            return
        x = None
        if held == "charged" and self.may_report(pin, page, metric):
            x = self.settled_input(metric, state)
        if x is None:
            s["states"].pop(name, None)
            self.save()
            return
        due = end
        if metric.at_once and state is not None:
            due = min(max(start, state["first"]), now)
        for entry in s["ledger"]:
            if entry["metric"] == metric.name and (entry["start"], entry["end"]) == (start, end):
                entry["decision"] = "spent"
        delay = below(self.coins("delay", metric.name, pin["index"]), page.longest_delay + 1) / 1000
        payload = randomize(metric, x, self.values)
        s["outbox"].append(
            {
                "lane": metric.lane,
                "id": metric.id,
                "period": pin["index"],
                "pin": self.pin_name(start, end),
                "payload": payload.hex(),
                "nonce": self.coins("nonce", metric.name, pin["index"])(16).hex(),
                "closes": pin["closes"],
                "due": due,
                "send": due + delay,
            }
        )
        s["states"].pop(name, None)
        self.shrink_outbox(metric.lane)
        self.save()

    def may_report(self, pin: Mapping[str, Any], page: Page, metric: Metric) -> bool:
        """What must hold for a value not to be lost, beside the decision."""
        b = self.bundle
        if b is not None and (metric.id in b.off or (b.outline_of(pin["index"]) or {}).get(metric.id) is False):
            return False
        since = self.storage.get("consent_since", math.inf)
        return self.limits.against(page) is None and (metric.lane == "occasional" or since < pin["end"])

    @staticmethod
    def settled_input(metric: Metric, state: Mapping[str, Any] | None) -> Any:
        """The input of a recorded value, else of `missing`, else None."""
        if state is not None and state["reducer"] == metric.reduce:
            try:
                return input_of(metric, reduced(metric.reduce, state["state"]))
            except Refused:
                pass
        return None if metric.missing is None else input_of(metric, metric.missing)

    def shrink_outbox(self, lane: str) -> None:
        """Drop what closes first, while a lane holds too much."""
        mine = sorted(
            (one for one in self.storage["outbox"] if one["lane"] == lane), key=lambda one: (one["closes"], one["send"])
        )
        while len(mine) > 10_000 or sum(len(one["payload"]) + 200 for one in mine) > 8 * 2**20:
            self.storage["outbox"].remove(mine.pop(0))

    # Send

    def never_taken(self, one: Mapping[str, Any]) -> bool:
        """Whether no shuffler would take a report, by the newest bundle."""
        assert self.bundle is not None
        if not (self.bundle.outline_of(one["period"]) or {}).get(one["id"], False):
            return True
        key = self.storage["pins"][one["pin"]]["key"]
        return key is not None and any(
            k.state == "revoked" and k.id == key["id"] and k.covers(one["period"]) for k in self.bundle.keys
        )

    def settle_all(self) -> None:
        """The end of the app: values are drawn, and nothing is sent."""
        for lane in LANES:
            self.settle(lane)

    def left(self, *, hurry: bool) -> bool:
        """Whether a report that is due was not delivered, or may have been due."""
        return (
            not self.agreed()
            or not self.usable(self.clock())
            or any(self.ready(lane, self.clock(), hurry=hurry) for lane in LANES)
        )

    def drop_never_taken(self, lane: str) -> None:
        outbox = self.storage["outbox"]
        self.storage["outbox"] = [one for one in outbox if one["lane"] != lane or not self.never_taken(one)]

    def ready(self, lane: str, now: float, *, hurry: bool) -> list[dict[str, Any]]:
        """The reports of a lane whose time has come, in the order of their nonces."""
        when = "due" if hurry else "send"
        mine = [one for one in self.storage["outbox"] if one["lane"] == lane and one[when] <= now < one["closes"]]
        return sorted(mine, key=lambda one: str(one["nonce"]))

    def send(self, lane: str, *, flush: bool = False, hurry: bool = False) -> None:
        """Send the reports of a lane whose time has come."""
        now = self.clock()
        if not self.usable(now):
            return
        self.drop_never_taken(lane)
        if self.held(lane, now, flush=flush):
            return
        ready = [one for one in self.ready(lane, now, hurry=hurry) if self.sealed(one)]
        self.save()
        for request in in_requests([len(one["sealed"]) // 2 for one in ready]):
            if not self.deliver(lane, [ready[i] for i in request], flush=flush):
                return

    def sealed(self, one: dict[str, Any]) -> bool:
        """Seal a report unless it is; False if it has to wait."""
        key = self.storage["pins"][one["pin"]]["key"]
        if "sealed" not in one and key is not None:
            text = plaintext(one["period"], bytes.fromhex(one["nonce"]), bytes.fromhex(one["payload"]))
            try:
                box = seal(bytes.fromhex(key["public_key"]), info(one["id"], key["id"]), text)
            except Refused:
                return False
            one["sealed"] = report(one["id"], one["period"], key["id"], box).hex()
        return "sealed" in one

    def deliver(self, lane: str, reports: list[dict[str, Any]], *, flush: bool) -> bool:
        """Send one request. False if sending more is pointless."""
        headers = {"User-Agent": "hubbub", "Accept-Encoding": "identity"}
        headers["Content-Type"] = "application/vnd.hubbub.reports"

        def post(places: Sequence[int]) -> Answer | None:
            if not self.agreed():
                return None
            body = upload([bytes.fromhex(reports[i]["sealed"]) for i in places])
            return self.transport("POST", self.address.rstrip("/") + "/v1/reports", headers, body)

        found, wait = delivered(range(len(reports)), post)
        for i, verdict in found.items():
            if verdict in ("durable", "drop"):
                self.storage["outbox"].remove(reports[i])
        stop = pointless(found, wait)
        if stop:
            self.failed(lane, wait)
        else:
            self.succeeded(lane)
        self.save()
        if "fetch the bundle" in found.values() and lane == "steady" and wait == 0:
            self.fetch(flush=flush)
            self.drop_never_taken(lane)
        return not stop

    # The cycle

    def cycle(self, *, flush: bool = False, hurry: bool = False) -> None:
        """Fetch, pin, then settle and send each lane. `hurry` leaves out the random delays."""
        if not self.agreed():
            self.forget()
            return
        if self.stale(self.clock(), flush=flush):
            self.fetch(flush=flush)
        self.pin()
        for lane in LANES:
            self.settle(lane)
            self.send(lane, flush=flush, hurry=hurry)
        self.tidy()

    def tidy(self) -> None:
        """Delete what is over, at the second look an hour after the first one."""
        now, s = self.clock(), self.storage
        over = s.setdefault("over", {})
        for name, delete, until in list(self.perishable()):
            if now < until:
                over.pop(name, None)
            elif now >= over.setdefault(name, now) + 3600:
                delete()
                del over[name]
        self.save()

    def perishable(self) -> Iterator[tuple[str, Callable[[], Any], float]]:
        """What is kept until a moment: its name, how to delete it, and the moment."""
        s = self.storage
        for name, state in s["states"].items():
            yield f"state {name}", partial(s["states"].pop, name), state["closes"]
        for one in s["outbox"]:
            yield f"report {one['nonce']}", partial(s["outbox"].remove, one), one["closes"]
        waiting = {one["pin"] for one in s["outbox"]}
        for name, pin in s["pins"].items():
            if name not in waiting:
                yield f"pin {name}", partial(s["pins"].pop, name), pin["closes"] + 7 * DAY


def epsilon_text(page: Page, name: str) -> str:
    return next(str(m["epsilon"]) for m in page.document["metrics"] if m["name"] == name)
