"""Certificate authorities that may vouch for the aggregator's name."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

from hubbub.errors import InvalidParameter
from hubbub_service_common.process.file_reload import Renewal

__all__ = ["Authorities"]


class Authorities:
    """The authorities in a file. One that is added while the service runs is trusted from the next connection on.

    One that is removed is trusted until a restart: OpenSSL can add authorities to a context, but not remove them.
    """

    def __init__(self, file: Path, log: logging.Logger) -> None:
        self._file = file
        self.renewal = Renewal(file, take=self._take, log=log)
        try:
            self.context = ssl.create_default_context(cafile=file)
        except OSError as error:  # including SSLError, where the file holds something else
            why = error.strerror or "it holds no certificate in PEM"
            raise InvalidParameter(f"ca_file {file} can't be used: {why}") from None

    def _take(self) -> str:
        self.context.load_verify_locations(cafile=self._file)
        return f"the authorities in {self._file}, beside those from before"
