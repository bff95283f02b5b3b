"""One target under atheris: python tests/fuzz/harness.py TARGET CORPUS [libFuzzer options]. See README.md."""

from __future__ import annotations

import json
import random
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path

atheris = import_module("atheris")  # by name, since it is not in the lock and mypy would not find it

with atheris.instrument_imports(include=["hubbub", "hubbub_client"]):
    from hubbub.errors import HubbubError
    from tests.fuzz.mutations import mutated_json
    from tests.fuzz.targets import SEEDS, TARGETS

_DOCUMENTS = {"signed_body", "compiled_codebook"}


def main() -> None:
    name, corpus = sys.argv[1], Path(sys.argv[2])
    target = TARGETS[name]
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(SEEDS[name]):
        (corpus / f"seed-{number}").write_bytes(seed)

    def refused_or_taken(data: bytes) -> None:
        with suppress(HubbubError):  # how bytes are refused; anything else ends the run and is kept as a finding
            target(data)

    def mutated(data: bytes, most: int, seed: int) -> bytes:
        """Half of the time by members of the document, half of the time by bytes."""
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):
            document = None
        if document is None or seed % 2:
            return bytes(atheris.Mutate(data, most))
        return mutated_json(document, random.Random(seed))[:most]

    more = {"custom_mutator": mutated} if name in _DOCUMENTS else {}
    atheris.Setup([sys.argv[0], *sys.argv[3:], str(corpus)], refused_or_taken, **more)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
