"""Write deploy/systemd/*.env from the services' settings: all of them, most of them commented out.

    python -m scripts.make_env_templates

A test compares, so that an operator finds every setting there, with its default and its meaning.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path

from hubbub_aggregator.settings import Settings as Aggregator
from hubbub_service_common.settings import ServiceSettings
from hubbub_service_common.settings_from_files import FILE
from hubbub_shuffler.settings import Settings as Shuffler

__all__ = ["FOLDER", "main", "template"]

FOLDER = Path(__file__).parent.parent / "deploy" / "systemd"
_WIDTH = 118
_SHUFFLER = {
    "host": "0.0.0.0",  # noqa: S104  devices connect from everywhere
    "aggregator": "https://aggregator.example.com:8702",
    "trust": "ed25519:REPLACE-WITH-WHAT-THE-AGGREGATOR-PRINTS",
    "admin_port": "9701",
}
_AGGREGATOR = {
    "codebook": "/etc/hubbub/codebook.json",
    "host": "0.0.0.0",  # noqa: S104  the shuffler and analysts connect from other hosts
    "shuffler_address": "https://shuffler.example.com:8701",
    "shuffler_floor": "100",
    "admin_port": "9702",
}
_BY_THE_UNIT = {
    "shuffler": ("state_dir", "forward_token", "tls_certificate", "tls_key"),
    "aggregator": ("state_dir", "shuffler_token", "analyst_token", "tls_certificate", "tls_key"),
}


def template(settings: type[ServiceSettings], set_here: Mapping[str, str]) -> str:
    """All settings of a service as its unit reads them."""
    service, prefix = settings.service, settings.prefix()
    lines = [
        f"# Settings of hubbub-{service}.service. Copy to /etc/hubbub/{service}.env, and edit the lines without a #.",
        "# Secrets do not belong here: the unit reads them from files, as credentials. For a secret that the unit does",
        f"# not read, name its file here: {prefix}ADMIN_TOKEN{FILE}=...",
        "",
    ]
    for name, default, text in settings.table():
        variable = prefix + name.upper()
        notes = [text]
        if name in _BY_THE_UNIT[service]:
            notes.append("Set by the unit.")
        if name in settings.in_files():
            notes.append(f"Or the name of a file that holds it, in {variable}{FILE}.")
        lines += textwrap.wrap(" ".join(notes), _WIDTH, initial_indent="# ", subsequent_indent="# ")
        lines += [f"{variable}={set_here[name]}" if name in set_here else f"#{variable}={default}", ""]
    return "\n".join(lines[:-1]) + "\n"


def main() -> dict[Path, str]:
    """The text of each file."""
    return {
        FOLDER / "shuffler.env": template(Shuffler, _SHUFFLER),
        FOLDER / "aggregator.env": template(Aggregator, _AGGREGATOR),
    }


if __name__ == "__main__":
    for path, text in main().items():
        path.write_text(text)
