"""Who may vouch for the aggregator's name."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

from hubbub.problems import InvalidParameter
from hubbub_service_common.process.file_reload import Renewal

__all__ = ["Authorities"]


class Authorities:
    """Those in a file. What the file gains while the service runs is believed from the next connection on.

    What it loses is believed until a restart: OpenSSL can add to whom it believes, and take nobody away.
    """

    def __init__(self, file: Path, log: logging.Logger) -> None:
        self._file = file
        self.renewal = Renewal(file, take=self._take, log=log)
        try:
            self.context = ssl.create_default_context(cafile=file)
        except OSError as error:  # an SSLError too, where the file holds something else
            why = error.strerror or "it holds no certificate in PEM"
            raise InvalidParameter(f"ca_file {file} can't be used: {why}") from None

    def _take(self) -> str:
        self.context.load_verify_locations(cafile=self._file)
        return f"the authorities in {self._file}, beside those from before"
