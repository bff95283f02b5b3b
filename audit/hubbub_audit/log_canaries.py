"""Attack by log canaries: values that occur nowhere else are recorded, and searched for in all output.

A client, a shuffler and the aggregator's opening of batches run with every logger at DEBUG; errors are provoked with
the same values. The search covers log records with their arguments and tracebacks, warnings, stdout and stderr,
counters, requests, and what the shuffler forwards.
"""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from fractions import Fraction

from hubbub.codebook import Codebook, Collection, Metric
from hubbub.errors import HubbubError
from hubbub.mechanisms import Bounds, Categories, KaryRandomizedResponse
from hubbub.mechanisms import DiscreteLaplaceMean as Laplace
from hubbub.metric_types.category import Category
from hubbub.metric_types.mean import Mean
from hubbub.period import Calendar
from hubbub.randomness import SystemRandomness
from hubbub_audit.audited_client import a_device, refused
from hubbub_audit.findings import Attack, Finding
from hubbub_audit.real_shuffler import through_the_shuffler
from hubbub_client._randomizing.draw import draw

__all__ = ["canaries"]

_WORD = "canary-c4a7f1e09b"
_NUMBER = 73519.6284
_SHOWN = "73519.6"
_PERIODS = 8


def canaries() -> Attack:
    """Record values that occur nowhere else, and search for them."""

    def run(_: float) -> list[Finding]:
        heard = _everything_that_is_said()
        found = sorted({word for word in (_WORD, _SHOWN) for text in heard if word in text})
        return [
            Finding(
                "side channel",
                "client, shuffler, aggregator",
                "values in logs",
                "no value is in any log, counter, error or request",
                0.0,
                float(len(found)),
                "beaten" if found else "holds",
                f"{sum(map(len, heard)):,} characters searched, loggers at DEBUG",
                trials=len(heard),
                detail=", ".join(found),
            )
        ]

    return Attack("side channel", "logs", 0, run)


def _everything_that_is_said() -> list[str]:
    printed = io.StringIO()
    with (
        _listening() as heard,
        warnings.catch_warnings(record=True) as warned,
        redirect_stdout(printed),
        redirect_stderr(printed),
    ):
        warnings.simplefilter("always")
        said = _use_a_client()
        _use_the_services()
    return [*heard, *said, *(str(warning.message) for warning in warned), printed.getvalue()]


@contextmanager
def _listening() -> Iterator[list[str]]:
    """Every log record of every logger, as text: message, arguments, traceback."""
    heard: list[str] = []

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(self.format(record))
            heard.append(repr(record.args))

    root, ear = logging.getLogger(), Ear(0)
    named = [logger for logger in logging.Logger.manager.loggerDict.values() if isinstance(logger, logging.Logger)]
    before = [(logger, logger.level, logger.disabled) for logger in (root, *named)]
    root.addHandler(ear)
    for logger, _, _ in before:
        logger.setLevel(logging.DEBUG)
        logger.disabled = False
    try:
        yield heard
    finally:
        root.removeHandler(ear)
        for logger, level, disabled in before:
            logger.setLevel(level)
            logger.disabled = disabled


def _use_a_client() -> list[str]:
    """Record, cause errors, send, and fail to send; return all counters, errors and requests as text."""
    said: list[str] = []
    with a_device(_codebook()) as device:
        for _ in range(_PERIODS):
            device.record("number", _NUMBER)
            device.record("word", _WORD)
            for metric, value in (("word", _NUMBER), ("number", _WORD), ("number", float("nan"))):
                with suppress(HubbubError):  # strict clients raise; only the app sees it, and it knows the value
                    device.client.record(metric, value)
            device.transport.script.append(refused("overloaded"))
            device.client.flush(0, now=True)
            device.clock.advance(4_000)
            device.client.flush(0, now=True)
            device.clock.next_period()
        said += [repr(device.client.stats()), repr(device.client.ledger()), repr(device.client)]
        for request in device.transport.requests:
            said += [request.path, repr(dict(request.headers)), request.body.decode("latin-1")]
    return said


def _use_the_services() -> None:
    codebook, rng = _codebook(), SystemRandomness()
    for metric, value in zip(codebook.metrics, (_NUMBER, _WORD), strict=True):
        through_the_shuffler(codebook, metric.id, [[draw(metric, value, rng) for _ in range(3)] for _ in range(3)])


def _codebook() -> Codebook:
    """One metric of words and one of numbers. At this epsilon reports are usually true."""
    calendar = Calendar.parse("1h")
    week = 7 * 86_400
    collection = Collection("audit", calendar, week, week, Fraction(16), Fraction(1), Fraction(1, 10**8), Fraction(1))
    bounds = Bounds(Fraction(0), Fraction(147_039))
    words = Category((_WORD, "other", "third"), other="other")
    number = Metric("audit", calendar, "number", Mean(bounds), Laplace.calibrate(8, bounds), "first", min_batch=2)
    krr = KaryRandomizedResponse.calibrate(8, Categories(3))
    return Codebook(collection, (number, Metric("audit", calendar, "word", words, krr, "first", min_batch=2)))
