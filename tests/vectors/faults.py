"""Planted faults: small changes of the reference device, each a mistake that another implementation could make.

`python -m tests.vectors.faults` says for each which vector catches it.
"""

import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

from tests.vectors.play import VECTORS, failures

SOURCE = Path(__file__).with_name("reference_device.py")


@dataclass(frozen=True)
class Fault:
    """A mistake: where the source says `old`, which it does once, it says `new`."""

    name: str
    old: str
    new: str


@cache
def source() -> str:
    return SOURCE.read_text("utf-8")


def spoiled(fault: Fault) -> ModuleType:
    """The reference device with the fault."""
    module = ModuleType(f"reference_device with {fault.name}")
    sys.modules[module.__name__] = module  # dataclasses look their module up
    exec(compile(source().replace(fault.old, fault.new), fault.name, "exec"), module.__dict__)  # noqa: S102
    return module


def caught(fault: Fault, folder: Path = VECTORS) -> tuple[str, str] | None:
    """File and case of the first vector that catches a fault; None if none does."""
    try:
        device = spoiled(fault)
        return next(failures(device, folder), None)
    finally:
        sys.modules.pop(f"reference_device with {fault.name}", None)


FAULTS = [
    Fault(name, old, new)
    for name, old, new in [
        # Canonical JSON and decimals
        (
            "members in UTF-16 order",
            "for name in sorted(value))",
            'for name in sorted(value, key=lambda n: n.encode("utf-16-be")))',
        ),
        ("DEL is not escaped", "elif 0x20 <= code <= 0x7E:", "elif 0x20 <= code <= 0x7F:"),
        ("2^53 is taken", "LARGEST_INTEGER = 2**53 - 1", "LARGEST_INTEGER = 2**53"),
        ("integers of any size", "require(abs(value) <= LARGEST_INTEGER", "require(True"),
        ("escapes in capitals", 'parts.append(f"\\\\u{code:04x}")', 'parts.append(f"\\\\u{code:04X}")'),
        ("a lone surrogate is taken", "elif 0xD800 <= code <= 0xDFFF:", "elif code < 0:"),
        ("a body that is not canonical", 'require(again == text, "the JSON is not canonical")', "pass"),
        (
            "a name twice in the body",
            'require(again == text, "the JSON is not canonical")',
            "twice = []\n    json.loads(text, object_pairs_hook=lambda p: twice.append(len(p) - len(dict(p))))\n"
            '    require(again == text or any(twice), "")',
        ),
        ("decimals with zeros at the end", r"(\.[0-9]*[1-9])?", r"(\.[0-9]+)?"),
        ("decimals with an exponent", r'(\.[0-9]*[1-9])?")', r'(\.[0-9]*[1-9])?(e[0-9]+)?")'),
        (
            "spare bits of base64url",
            "require(base64.urlsafe_b64encode(data).rstrip",
            "require(True or base64.urlsafe_b64encode(data).rstrip",
        ),
        # Periods
        ("weeks begin on Thursday", "return -259_200 if length % WEEK == 0 else 0", "return 0"),
        ("weeks begin on Sunday", "return -259_200 if", "return -345_600 if"),
        ("any length of period", "(DAY % seconds == 0 or seconds % DAY == 0)", "True"),
        (
            "the last period of the year 9999",
            "end_of(index, length) < YEAR_10000",
            "end_of(index, length) <= YEAR_10000",
        ),
        ("periods beyond 32 bits", "0 <= index < 2**32 and", "0 <= index and"),
        ("seconds are rounded, not cut", "(math.floor(time) - origin(length))", "(round(time) - origin(length))"),
        # Draws
        ("the lower bits are kept", '"big") >> (8 * size - n) if n else 0', '"big") & ((1 << n) - 1) if n else 0'),
        (
            "little-endian draws",
            'return int.from_bytes(take(size), "big")',
            'return int.from_bytes(take(size), "little")',
        ),
        ("modulo instead of drawing again", "        if x < n:\n            return x\n", "        return x % n\n"),
        ("a coin with <= for <", "return below(take, b) < a", "return below(take, b) <= a"),
        ("no coin where it is sure", "return below(take, b) < a", "return a == b or (a > 0 and below(take, b) < a)"),
        (
            "a coin that is reduced",
            "return below(take, b) < a",
            "return below(take, b // math.gcd(a, b)) < a // math.gcd(a, b)",
        ),
        ("pick with < for <=", "passed += total <= x", "passed += total < x"),
        ("the odd ones are true", "return k % 2 == 1", "return k % 2 == 0"),
        ("the rate of laplace is ignored", "y = (r + scale * k) // rate", "y = r + scale * k"),
        (
            "the sign of laplace comes first",
            "        r = below(take, scale)\n",
            "        negative = coin(take, 1, 2)\n        r = below(take, scale)\n",
        ),
        ("zero is drawn twice as often", "if not (negative and y == 0):", "if True:"),
        ("coins begin with the first digit", "found | word if a >> i & 1", "found | word if a >> (places - 1 - i) & 1"),
        ("coins keep even thresholds", "while places > 0 and a % 2 == 0:", "while False:"),
        (
            "coins lie in columns",
            "word = (x >> (i * n)) % 2**n",
            "word = sum((x >> (v * places + i) & 1) << v for v in range(n))",
        ),
        (
            "Floyd is replaced",
            "        x = below(take, last + 1)\n        chosen.add(last if x in chosen else x)",
            "        x = below(take, n)\n        while x in chosen:\n            x = below(take, n)\n"
            "        chosen.add(x)",
        ),
        ("subset: 8 for 16", "if 16 * k < n:", "if 8 * k < n:"),
        ("subset: <= for <", "if 16 * k < n:", "if 16 * k <= n:"),
        ("subset: 7 places for 8", "(256 * k + n // 2) // n, 8)", "(128 * k + n // 2) // n, 7)"),
        ("subset: the share of coins is cut", "(256 * k + n // 2) // n, 8)", "256 * k // n, 8)"),
        # Mechanisms
        ("symbols are little-endian", 'y.to_bytes(symbol_bytes(s), "big")', 'y.to_bytes(symbol_bytes(s), "little")'),
        ("bits are big-endian", 'z.to_bytes((n + 7) // 8, "little")', 'z.to_bytes((n + 7) // 8, "big")'),
        (
            "krr: the coin first",
            "    lie = (x + 1 + below(take, d - 1)) % d\n    truth = coin(take, keep, W)\n",
            "    truth = coin(take, keep, W)\n    lie = (x + 1 + below(take, d - 1)) % d\n",
        ),
        (
            "krr: no other value where it tells the truth",
            "    lie = (x + 1 + below(take, d - 1)) % d\n    truth = coin(take, keep, W)\n"
            "    return symbol(x if truth else lie, d)",
            "    if coin(take, keep, W):\n        return symbol(x, d)\n"
            "    return symbol((x + 1 + below(take, d - 1)) % d, d)",
        ),
        (
            "krr: the others in order",
            "    lie = (x + 1 + below(take, d - 1)) % d\n    truth = coin(take, keep, W)\n",
            "    lie = below(take, d - 1)\n    lie += lie >= x\n    truth = coin(take, keep, W)\n",
        ),
        (
            "krr: one byte for more than 256 values",
            "return symbol(x if truth else lie, d)",
            "return bytes([(x if truth else lie) % 256])",
        ),
        ("subset: the list where both are equal", "if k * w < d:", "if k * w <= d:"),
        ("subset: never a list", "if k * w < d:", "if False:"),
        ("subset: not turned to x", "turn = (x + 1) % d", "turn = x"),
        ("linear-hash: masks in reverse", "(masks >> (i * w)) % 2**w & x", "(masks >> ((t - 1 - i) * w)) % 2**w & x"),
        (
            "linear-hash: the bucket in the upper bits",
            "packed((masks << t) | (bucket if truth else lie), t * (w + 1))",
            "packed(masks | (bucket if truth else lie) << t * w, t * (w + 1))",
        ),
        ("olh: digits from the highest", "(x // g**i % g) for i", "(x // g ** (digits - 1 - i) % g) for i"),
        (
            "unary: the true bit has no coin of its own",
            "return packed(noise & ~(1 << x) | one << x, d)",
            "return packed(noise ^ (one << x), d)",
        ),
        (
            "unary: no noise for the true bit",
            "noise = coins(take, d, flip, 64)",
            "noise = coins(take, d - 1, flip, 64)",
        ),
        (
            "the place is reduced",
            "    return up, whole\n",
            "    return up // math.gcd(up, whole), whole // math.gcd(up, whole)\n",
        ),
        ("values are not clamped below", "    if up <= 0:\n        return 0, 1\n", ""),
        ("values are not clamped above", "    if up >= whole:\n        return 1, 1\n", ""),
        (
            "no coin on a grid point",
            "return below_it + coin(take, rest, whole)",
            "return below_it + (rest > 0 and coin(take, rest, whole))",
        ),
        ("laplace is not clamped", "    y = min(max(y, -reach), steps + reach)\n", ""),
        (
            "hybrid: the ends first",
            "        weights += [outer * (high * (m - i) + low * i), outer * (low * (m - i) + high * i)]",
            "        weights = [outer * (high * (m - i) + low * i), outer * (low * (m - i) + high * i), *weights]",
        ),
        (
            "hybrid: the ends swapped",
            "[outer * (high * (m - i) + low * i), outer * (low * (m - i) + high * i)]",
            "[outer * (low * (m - i) + high * i), outer * (high * (m - i) + low * i)]",
        ),
        (
            "piecewise: the window is one too long",
            'if first <= j < first + p["window"] else',
            'if first <= j <= first + p["window"] else',
        ),
        (
            "table: mirror images in the same order",
            "for a, b, weight, moment in reversed(listed)",
            "for a, b, weight, moment in listed",
        ),
        ("table: no mirror images", "return listed + mirrored", "return listed"),
        (
            "table: a symmetric column twice",
            "in reversed(listed) if a + b < steps",
            "in reversed(listed) if a + b <= steps",
        ),
        # The codebook
        ("claims are not checked", 'require(holds, "the mechanism spends more than epsilon")', "pass"),
        (
            "claims by doubles",
            "return claimed.numerator * scale <= total * claimed.denominator",
            "return float(claimed) <= math.exp(float(epsilon))",
        ),
        (
            "claims with a tolerance",
            "return claimed.numerator * scale <= total * claimed.denominator",
            "return claimed.numerator * scale * 10**12 <= total * claimed.denominator * (10**12 + 1)",
        ),
        (
            "the reach of laplace is not checked",
            'require(p["reach"] * p["rate"] * 10**11 >= 2_772_588_722_240 * p["scale"], "reach")',
            "pass",
        ),
        ("olh: buckets that are no prime", "require(g < 256 and is_prime(g)", "require(1 < g < 256"),
        (
            "matrix: a zero beside a weight",
            'require(all(min(row) > 0 for row in rows), "a zero stands beside a weight")',
            "rows = [row for row in rows if min(row) > 0]",
        ),
        (
            "matrix: sums are not checked",
            "all(len(c) == len(columns[0]) and sum(c) == W for c in columns)",
            "all(len(c) == len(columns[0]) for c in columns)",
        ),
        (
            "table: moments are not checked",
            'require(len(rises) == 1 and min(rises) > 0, "the moments do not rise evenly")',
            "pass",
        ),
        (
            "table: sums are not checked",
            'require(len({sum(s[2] for s in covering) for covering in over}) == 1, "the points are not covered alike")',
            "pass",
        ),
        (
            "ids with the owner",
            'NOT_IN_ID = {"id", "min_batch", "enabled", "description", "owner", ',
            'NOT_IN_ID = {"id", "min_batch", "enabled", "description", ',
        ),
        ("ids with enabled", 'NOT_IN_ID = {"id", "min_batch", "enabled", ', 'NOT_IN_ID = {"id", "min_batch", '),
        ("ids with the unit", '"expires", "unit", "notes"}', '"expires", "notes"}'),
        (
            "ids without the period",
            'members | {"collection": collection, "period": period}',
            'members | {"collection": collection}',
        ),
        (
            "the id of a metric is not checked",
            'require(m["id"] == metric_id(m, collection, period), "the id does not fit")',
            "pass",
        ),
        (
            "the id of a codebook is not checked",
            'is_id(document["id"]) and document["id"] == codebook_id(document)',
            'is_id(document["id"])',
        ),
        (
            "the id of a codebook without notes",
            '{name: value for name, value in document.items() if name != "id"}',
            '{name: value for name, value in document.items() if name not in ("id", "notes")}',
        ),
        ("an unknown member of a metric is taken", "must <= set(m) <= must | may", "must <= set(m)"),
        (
            "an unknown member of a codebook is taken",
            'require(must <= set(document) <= must | {"notes"}',
            "require(must <= set(document)",
        ),
        ("an unknown member of a collection is taken", 'must <= set(c) <= must | {"delay", "notes"}', "must <= set(c)"),
        ("notes of a metric refuse it", 'may = {"notes"} | ({"unit"}', 'may = set() | ({"unit"}'),
        ("a unit refuses the metric", '({"unit"} if numbers else set())', "set()"),
        ("a delay refuses the codebook", 'must | {"delay", "notes"}', 'must | {"notes"}'),
        ("a delay above half the grace", ' and 2 * delay <= c["grace"])', ")"),
        ("one bad metric refuses the codebook", "            refused.add(name)\n", "            raise\n"),
        (
            "device_epsilon is not checked",
            'require(page.enabled_epsilon <= device_epsilon, "the metrics spend more than device_epsilon")',
            "pass",
        ),
        (
            "metrics that are not enabled count for the budget",
            "(m.epsilon for m in self.metrics.values() if m.enabled)",
            "(m.epsilon for m in self.metrics.values())",
        ),
        ("metrics need not be sorted", "require(names == sorted(set(names))", "require(len(names) == len(set(names))"),
        ("report_bytes is not checked", 'and m["report_bytes"] == payload_bytes(name, p, d)', ""),
        (
            "the share threshold is not checked",
            "require(threshold == max(1, math.floor(share * W))",
            "require(threshold > 0",
        ),
        ("values need not be composed", 'and unicodedata.is_normalized("NFC", text)', ""),
        ("epsilon of any size", "require(Fraction(1, 10_000) <= epsilon <= 30", "require(epsilon > 0"),
        ("memoize is ignored", 'require(m["memoize"] is False and ', "require("),
        ("days that do not exist", "and date.fromisoformat(value) is not None", ""),
        # The bundle
        ("no limit of size", "len(envelope) > LARGEST_ENVELOPE or ", ""),
        ("the signer is not checked", "if anchors is not None and signer not in anchors:", "if False:"),
        ("only the first trust anchor", "signer not in anchors:", "signer not in anchors[:1]:"),
        (
            "the signature is not checked",
            "Ed25519PublicKey.from_public_bytes(public).verify(signature, LABEL_BUNDLE + lines[2])",
            "pass",
        ),
        ("a signature without its label", "verify(signature, LABEL_BUNDLE + lines[2])", "verify(signature, lines[2])"),
        ("the format is not checked", 'and b.get("format") == "hubbub-bundle 1", "format")', ', "format")'),
        ("an expired bundle, by one second", "    if now >= bundle.expires:", "    if now > bundle.expires:"),
        (
            "a clock before the time of issue refuses",
            "    if now >= bundle.expires:",
            "    if not bundle.issued <= now < bundle.expires:",
        ),
        ("an older sequence", "bundle.sequence < seen[0] or ", ""),
        ("the same sequence, other bytes", "(bundle.sequence == seen[0] and bundle.digest != seen[1])", "False"),
        ("the same bundle again refuses", "bundle.sequence < seen[0] or ", "bundle.sequence <= seen[0] or "),
        (
            "an unknown suite refuses the bundle",
            'is_text(k.get("suite")), "id or suite")',
            'k.get("suite") == SUITE, "id or suite")',
        ),
        (
            "a key of an unknown suite is used",
            'key.state != "revoked" and key.suite == SUITE and',
            'key.state != "revoked" and',
        ),
        ("a revoked key is used", 'if key.state != "revoked" and key.suite', "if key.suite"),
        (
            "a pending key is not used",
            'if key.state != "revoked" and key.suite',
            'if key.state == "active" and key.suite',
        ),
        (
            "the last period of a key is not included",
            "self.first_period <= period <= self.last_period",
            "self.first_period <= period < self.last_period",
        ),
        (
            "two keys cover a period",
            'require(all(a[1] < z[0] for a, z in pairwise(usable)), "two keys cover a period")',
            "pass",
        ),
        ("revoked keys count as covering", 'for k in keys if k.state != "revoked")', "for k in keys)"),
        ("two keys of one id", 'require(len({key.id for key in keys}) == len(keys), "two keys have one id")', "pass"),
        (
            "the oldest codebook, not the newest",
            "return begun[-1] if begun else None",
            "return begun[0] if begun else None",
        ),
        ("the oldest list of metrics", "in begun[-1].items()} if begun", "in begun[0].items()} if begun"),
        (
            "a refused codebook does not end the one before",
            "[page for first, page in self.pages if first <= period]",
            "[page for first, page in self.pages if first <= period and page is not None]",
        ),
        (
            "unknown members of a body refuse it",
            '        require(is_text(b.get("collection")), "collection")\n',
            '        require(is_text(b.get("collection")) and len(b) <= 8 + ("off" in b), "collection")\n',
        ),
        ("`off` need not be in order", 'require(off == sorted(set(off)), "off is not in order")', "pass"),
        (
            "`off` is ignored for what is recorded",
            "return metric.enabled and metric.id not in self.off",
            "return metric.enabled",
        ),
        ("`off` is ignored for what waits", "on and name not in self.off for", "on for"),
        ("the whole digest as a tag", "hexdigest()[:32]}\"'", "hexdigest()}\"'"),
        # Values and reducers
        ("strings are not composed", 'composed = unicodedata.normalize("NFC", value)', "composed = value"),
        (
            "true is a number",
            "isinstance(value, int | float) and not isinstance(value, bool)",
            "isinstance(value, int | float)",
        ),
        ("an infinite value stays", "if abs(value) == math.inf or (", "if ("),
        (
            "values are clamped before they are reduced",
            "    return float(value)\n",
            "    return min(max(float(value), float(metric.lower)), float(metric.upper))\n",
        ),
        ("the mean in another order", "kept = (kept - kept / n) + v / n", "kept = kept + (v - kept) / n"),
        ("the sum overflows", "kept = max(-LARGEST_DOUBLE, min(LARGEST_DOUBLE, kept + v))", "kept = kept + v"),
        ("min is max", "kept = v if v < kept else kept", "kept = v if v > kept else kept"),
        ("the upper median", "ordered[middle - 1] / 2 + ordered[middle] / 2", "ordered[middle]"),
        (
            "the median adds before it halves",
            "ordered[middle - 1] / 2 + ordered[middle] / 2",
            "(ordered[middle - 1] + ordered[middle]) / 2",
        ),
        ("256 values are remembered", "REMEMBERED = 255", "REMEMBERED = 256"),
        (
            "a reservoir that keeps too often",
            "kept = v if coin(take, 1, n) else kept",
            "kept = v if coin(take, 1, n - 1) else kept",
        ),
        (
            "the median draws the place first",
            "elif coin(take, REMEMBERED, n):\n            at = below(take, REMEMBERED)\n",
            "elif (at := below(take, n)) < REMEMBERED:\n",
        ),
        (
            "most_common: the last of equals",
            "next(value for value, count in kept if count == most)",
            "[value for value, count in kept if count == most][-1]",
        ),
        ("most_common: a newcomer begins with 1", "[v, least + 1]", "[v, 1]"),
        ("the count is one too low", "        kept = n\n", "        kept = n - 1\n"),
        # Seal and upload
        ("info without the key id", "SUITE_NUMBERS + bytes([key_id])", "SUITE_NUMBERS"),
        ("info with another label", 'LABEL_REPORT = b"hubbub-01 report\\0"', 'LABEL_REPORT = b"hubbub-01 report"'),
        ("the header as additional data", 'encrypt(iv, text, b"")', "encrypt(iv, text, about)"),
        (
            "a point of low order",
            '        raise Refused("the public key is a point of low order") from error\n',
            "        shared = bytes(32)\n",
        ),
        (
            "one ephemeral key for all",
            "X25519PrivateKey.generate() if ephemeral is None",
            "X25519PrivateKey.from_private_bytes(bytes(range(32))) if ephemeral is None",
        ),
        ("another version", 'return b"\\x01" + bytes.fromhex(metric)', 'return b"\\x02" + bytes.fromhex(metric)'),
        (
            "the nonce before the period",
            'return period.to_bytes(4, "big") + nonce + payload',
            'return nonce + period.to_bytes(4, "big") + payload',
        ),
        ("little-endian lengths", 'len(one).to_bytes(2, "big") + one', 'len(one).to_bytes(2, "little") + one'),
        ("1,001 reports in a request", "i - first == 1000", "i - first == 1001"),
        ("lengths are not counted", "total + 2 + size > 512 * 2**10", "total + size > 512 * 2**10"),
        # Answers
        (
            "202 with a body",
            'if answer.status == 202 and answer.body == b"":\n        return',
            "if answer.status == 202:\n        return",
        ),
        (
            "any 2xx is durable",
            'if answer.status == 202 and answer.body == b"":\n        return',
            "if answer.status in (201, 202, 204):\n        return",
        ),
        ("200 of any media type", 'json_object(answer, "application/json")', "json_object(answer, answer.media_type)"),
        ("media types with parameters", '.split(";")[0].strip().lower()', ".strip().lower()"),
        ("media types in capitals", '.split(";")[0].strip().lower()', '.split(";")[0].strip()'),
        ("no limit of an answer", "or len(answer.body) > LARGEST_JSON", ""),
        (
            "an index beyond the upload is ignored",
            'is_integer(failure.get("index"), 0, n - 1):',
            'is_integer(failure.get("index"), 0):',
        ),
        ("an unknown reason drops", 'REFUSALS.get(reason, "retry")', 'REFUSALS.get(reason, "drop")'),
        (
            "a captive portal's 403 drops",
            '    return [("retry", None)] * n\n\n\ndef retry_after',
            '    return [("drop" if answer.status == 403 else "retry", None)] * n\n\n\ndef retry_after',
        ),
        (
            "the status decides, not the name",
            "        if name in REFUSALS:\n",
            "        if name in REFUSALS and answer.status not in (500, 503):\n",
        ),
        ("415 drops", "for name in names.split()}", 'for name in names.split()} | {"unsupported-media-type": "drop"}'),
        (
            "a proxy's 413 drops",
            '        if answer.status == 413:\n            return [("split", None)]',
            '        if answer.status == 413:\n            return [("split", "too-large")]',
        ),
        ("a proxy's 413 is not split", "if answer.status == 413:", "if False:"),
        ("the halves are uneven", "half = len(again) // 2", "half = (len(again) + 1) // 2"),
        (
            "the second half is sent though it is pointless",
            "            if pointless(last, wait):\n                break\n",
            "",
        ),
        (
            "Retry-After is ignored",
            "    return int(asked) if len(asked) <= 4 and int(asked) <= 3600 else 3600",
            "    return 0",
        ),
        (
            "Retry-After of any length",
            "    return int(asked) if len(asked) <= 4 and int(asked) <= 3600 else 3600",
            "    return int(asked)",
        ),
        ("Retry-After in any digits", 're.fullmatch("[0-9]+", asked)', "asked.isdigit()"),
        (
            "Retry-After of a 202 counts",
            'wait = 0 if answer is not None and answer.status == 202 and answer.body == b"" else retry_after(answer)',
            "wait = retry_after(answer)",
        ),
        (
            "unknown-key drops",
            '"split": "malformed-upload too-large",\n    "fetch the bundle": "unknown-key revoked-key",',
            '"split": "malformed-upload too-large",\n    "fetch the bundle": "revoked-key",',
        ),
        # The budget
        ("no limit for ever", "charges(entries) + epsilon > limits.lifetime_epsilon:", "False:"),
        ("no limit for a day", "charges(today) + epsilon > limits.max_epsilon:", "False:"),
        ("no limit for a period", "and charges(near) + epsilon <= device_epsilon", ""),
        (
            "a limit of a day is kept, not used up",
            "charges(today) + epsilon > limits.max_epsilon:",
            "charges(today) + epsilon >= limits.max_epsilon:",
        ),
        (
            "the day of the period, not of the charge",
            'ledger, day = self.storage["ledger"], math.floor(now) // DAY',
            'ledger, day = self.storage["ledger"], start // DAY',
        ),
        ("a codebook that asks for too much is used", "any(page.enabled_epsilon > cap for cap in caps)", "False"),
        ("short periods are used", "page.length < self.min_period or ", ""),
        ("the app's pin is ignored", "if self.pin is not None and page.id not in self.pin:", "if False:"),
        (
            "spent is forgotten",
            'for strongest in ("spent", "closed", "refused", "out of share"):',
            'for strongest in ("closed", "refused", "out of share"):',
        ),
        (
            "other lengths of periods do not overlap",
            'if entry["end"] > start and entry["start"] < end]',
            'if entry["end"] == end and entry["start"] == start]',
        ),
        ("no share coin", "coin(take, metric.share_threshold, W))", "True)"),
        (
            "two share coins",
            "coin(take, metric.share_threshold, W))",
            "coin(take, metric.share_threshold, W) and coin(take, metric.share_threshold, W))",
        ),
        ("a share coin for each metric id", 'self.coins("share", metric.name,', 'self.coins("share", metric.id,'),
        ("an expired metric is charged", "(metric.expires is not None and metric.expires <= utc_date(start))", "False"),
        (
            "an expired metric is charged on its last day",
            "metric.expires <= utc_date(start)",
            "metric.expires < utc_date(start)",
        ),
        (
            "an expired metric is recorded on its last day",
            "metric.expires <= utc_date(now)",
            "metric.expires < utc_date(now)",
        ),
        # Periods and pins
        (
            "pins by a bundle that is not fresh",
            "if b is None or not self.fresh(now) or not self.agreed():",
            "if b is None or not self.agreed():",
        ),
        (
            "only the period that runs is pinned",
            "for index in range(newest, max(newest - 64, 0) - 1, -1):",
            "for index in [newest]:",
        ),
        ("65 ended periods are pinned", "max(newest - 64, 0) - 1, -1)", "max(newest - 65, 0) - 1, -1)"),
        ("days before consent are pinned", " or since >= end:", ":"),
        ("a pin follows a newer codebook", '            if name not in s["pins"]:\n', "            if True:\n"),
        (
            "a pin follows a newer key",
            '            elif s["pins"][name]["key"] is None:\n',
            '            if s["pins"].get(name):\n',
        ),
        ("a pin never gets its key", '            elif s["pins"][name]["key"] is None:\n', "            elif False:\n"),
        # Settle
        (
            "the grace lasts one second longer",
            'if pin["start"] <= now < pin["closes"]:',
            'if pin["start"] <= now < pin["closes"] + 1:',
        ),
        (
            "`missing` is not reported",
            "return None if metric.missing is None else input_of(metric, metric.missing)",
            "return None",
        ),
        (
            "a first value waits for the end of the period",
            'return self.reduce == "first" and self.missing is None',
            "return False",
        ),
        (
            "a first value is due at once though one may be missing",
            'return self.reduce == "first" and self.missing is None',
            'return self.reduce == "first"',
        ),
        (
            "a delay of the codebook is ignored",
            "return 500 * self.grace if self.delay is None else 1000 * self.delay",
            "return 500 * self.grace",
        ),
        ("the delay is as long as the grace", "return 500 * self.grace if", "return 1000 * self.grace if"),
        (
            "no random delay",
            'below(self.coins("delay", metric.name, pin["index"]), page.longest_delay + 1) / 1000',
            "0",
        ),
        (
            "the delay in whole seconds",
            "page.longest_delay + 1) / 1000\n        payload",
            "page.longest_delay + 1) // 1000\n        payload",
        ),
        ("what is off is drawn", "if b is not None and (metric.id in b.off or", "if False and (metric.id in b.off or"),
        (
            "drawn by an expired or refused bundle",
            "if not self.agreed() or not self.usable(now):",
            "if not self.agreed():",
        ),
        ("oldest periods first", 'key=lambda pin: -pin["start"]', 'key=lambda pin: pin["start"]'),
        # Send
        ("occasional reports first", 'LANES = ("steady", "occasional")', 'LANES = ("occasional", "steady")'),
        ("reports in the order of recording", 'return sorted(mine, key=lambda one: str(one["nonce"]))', "return mine"),
        ("sealed again for a retry", 'if "sealed" not in one and key is not None:', "if key is not None:"),
        ("a revoked key's reports are sent", "return key is not None and any(", "return False and any("),
        ("any revoked key drops", 'k.state == "revoked" and k.id == key["id"] and', 'k.state == "revoked" and'),
        (
            "what is off is sent",
            'if not (self.bundle.outline_of(one["period"]) or {}).get(one["id"], False):',
            "if False:",
        ),
        (
            "a refused bundle is passed over",
            "return self.bundle is not None and not self.refused and now < self.bundle.expires",
            "return self.bundle is not None and now < self.bundle.expires",
        ),
        (
            "an expired bundle is used",
            "return self.bundle is not None and not self.refused and now < self.bundle.expires",
            "return self.bundle is not None and not self.refused",
        ),
        (
            "a pause of the steady lane is for it alone",
            'for one in LANES if lane == "steady" else (lane,):',
            "for one in (lane,):",
        ),
        (
            "a pause of the occasional lane is for both",
            'for one in LANES if lane == "steady" else (lane,):',
            "for one in LANES:",
        ),
        (
            "no bundle is fetched for an unknown key",
            'if "fetch the bundle" in found.values() and lane == "steady" and wait == 0:',
            "if False:",
        ),
        (
            "the occasional lane fetches the bundle",
            'if "fetch the bundle" in found.values() and lane == "steady" and wait == 0:',
            'if "fetch the bundle" in found.values() and wait == 0:',
        ),
        ("a retry is dropped", 'if verdict in ("durable", "drop"):', 'if verdict in ("durable", "drop", "retry"):'),
        (
            "another payload for a retry",
            '            if verdict in ("durable", "drop"):\n',
            '            if verdict == "retry":\n                del reports[i]["sealed"]\n'
            '                reports[i]["payload"] = "00" * (len(reports[i]["payload"]) // 2)\n'
            '            if verdict in ("durable", "drop"):\n',
        ),
        (
            "an unlisted value becomes the first one",
            "composed in metric.values else metric.other",
            "composed in metric.values else metric.values[0]",
        ),
        (
            "a state of another reducer is drawn",
            'if state is not None and state["reducer"] == metric.reduce:',
            "if state is not None:",
        ),
        ("what closes is still sent", 'one[when] <= now < one["closes"]', 'one[when] <= now <= one["closes"]'),
        ("the delay is drawn and not waited for", 'when = "due" if hurry else "send"', 'when = "due"'),
        (
            "a first value is due from the start of the period",
            'due = min(max(start, state["first"]), now)',
            "due = start",
        ),
        ("`missing` as a double", "number = decimal(value) if", "number = Fraction(float(value)) if"),
        ("an edge belongs to the bin below it", "sum(edge <= number for", "sum(edge < number for"),
        (
            "edges in any order",
            'require(all(one < two for one, two in pairwise(edges)), "edges',
            'require(True, "edges',
        ),
        ("a window is drawn only for the truth", "else outside + (self.width if outside >= x else 0)", "else outside"),
        ("a bit for the last cell, too", "return chosen % (1 << c - 1)", "return chosen"),
        ("the first component has no bit", "if which else (0, 1)", "if which else (0, 0)"),
        (
            "components in any order",
            'require(all(one[0] < two[0] for one, two in pairwise(p.get(key, []))), f"',
            'require(True, f"',
        ),
        ("weights of any sum", " and sum(weight for _, weight in every) == WHOLE", ""),
        ("only what is spent counts", 'if e["decision"] in ("charged", "spent"))', 'if e["decision"] == "spent")'),
        (
            "a restart forgets a wait",
            '"waits", "pauses", "failures"):\n            s.setdefault(name,',
            '"waits", "pauses", "failures"):\n            s.__setitem__(name,',
        ),
        ("a fetch ignores Retry-After", 'self.failed("steady", retry_after(answer))', 'self.failed("steady")'),
        (
            "slashes at the end of the address stay",
            'self.address.rstrip("/") + "/v1/reports"',
            'self.address + "/v1/reports"',
        ),
        ("a lost ledger begins again", 'if "ledger" not in s and s["pins"]:', "if False:"),
        (
            "a kept envelope is not verified again",
            '_, body = read_envelope(s["envelope"].encode("ascii"), self.trusted)',
            '_, body = read_envelope(s["envelope"].encode("ascii"), None)',
        ),
        (
            "a metric that the newest bundle lacks is not drawn",
            ".get(metric.id) is False)",
            ".get(metric.id) is not True)",
        ),
        (
            "a pin keeps only its key, not its codebook",
            "page = self.pinned_page(pin)\n                for metric",
            'page = self.bundle.page_of(pin["index"]) or self.pinned_page(pin)\n                for metric',
        ),
        (
            "a state of another reducer goes on",
            'if old is not None and old["reducer"] != metric.reduce:',
            "if False:",
        ),
        ("a wait that is far ahead is believed", "now < wait <= now + 3600", "now < wait"),
        (
            "the newest sequence is forgotten",
            'return (self.storage["sequence"], self.storage["digest"]) if "sequence" in self.storage else None',
            "return None",
        ),
        ("a restart forgets the bundle", 'if "envelope" in s:', 'if "nothing" in s:'),
        ("a lane of 10 reports", "while len(mine) > 10_000", "while len(mine) > 10"),
        ("the bundle is fetched at each cycle", "if self.stale(self.clock(), flush=flush):", "if True:"),
        ("a clock before the last fetch is no reason to fetch", "or now < fetched or", "or"),
        ("what is refused for good is kept", 'if verdict in ("durable", "drop"):', 'if verdict == "durable":'),
        # Consent
        ("consent is not asked for at a record", '        if not self.agreed():\n            return "disabled"\n', ""),
        (
            "what is kept outlasts consent",
            '        self.storage["states"].clear()\n        self.storage["outbox"].clear()\n',
            "",
        ),
        (
            "consent forgets what was spent",
            '        self.storage["outbox"].clear()\n',
            '        self.storage["outbox"].clear()\n        self.storage["ledger"].clear()\n',
        ),
        ("consent that came back is as old as before", '        self.storage.pop("consent_since", None)\n', ""),
        (
            "steady metrics of days before consent",
            'self.limits.against(page) is None and (metric.lane == "occasional" or since < pin["end"])',
            "self.limits.against(page) is None",
        ),
        ("consent is not asked for", "if self.consent() is not True:", "if self.consent() is None:"),
        # Record
        (
            "values before the first bundle are lost",
            "                self.waiting.append((name, value, time))\n",
            "                pass\n",
        ),
        (
            "a second value of a first metric is over budget",
            '        if held == "spent" and metric.reduce == "first":\n            return "recorded"\n',
            "",
        ),
        (
            "a value of a decided period is recorded",
            '        if held in ("refused", "closed", "spent"):\n            return "over_budget"\n',
            "",
        ),
    ]
]

NOT_CAUGHT = {
    "a lane of 10 reports": "a vector of 10,001 reports would be too large",
    "a fetch ignores Retry-After": "no event of a trace says what a fetch is answered, beside the bundle",
    "slashes at the end of the address stay": "a trace has no address",
    "a lost ledger begins again": "how a ledger is stored, and so lost, is the device's own affair",
    "a kept envelope is not verified again": "no event of a trace changes the trust anchors",
}
"""Why no vector catches a fault."""


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else VECTORS
    missed = 0
    for fault in FAULTS:
        found = caught(fault, folder)
        missed += found is None
        print(f"{fault.name:60} {': '.join(found) if found else '-- NOT CAUGHT --'}", flush=True)  # noqa: T201
    print(f"{len(FAULTS) - missed} of {len(FAULTS)} caught")  # noqa: T201


if __name__ == "__main__":
    main()
