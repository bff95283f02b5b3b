"""Entry point of the `hubbub` command: checks the installation, runs a subcommand, prints errors."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import entry_points
from importlib.util import find_spec

import hubbub as core

LIBRARIES = (
    "altair",
    "click",
    "fastapi",
    "httptools",
    "httpx2",
    "jinja2",
    "nanoarrow",
    "numpy",
    "prometheus_client",
    "pydantic",
    "pydantic_settings",
    "redis",
    "scipy",
    "uvicorn",
    "vl_convert",
)
"""Import names of what the extra `server` installs. An app with the SDK alone may have some of them."""


_INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells have it: 128 and the number of SIGINT."""


def version() -> str:
    """What `hubbub --version` prints: enough to repeat a run, and nothing about the machine."""
    return f"hubbub {core.__version__}, Python {platform.python_version()}"


def distribution() -> str:
    """The name under which this command was installed. Only pyproject.toml says it."""
    owners = [entry.dist for entry in entry_points(group="console_scripts", name="hubbub")]
    return next((owner.name for owner in owners if owner), "hubbub")


def main() -> None:
    """Run the command; a caller's mistake ends in one line on stderr, never in a traceback."""
    missing = [name for name in LIBRARIES if find_spec(name) is None]
    if missing and sys.argv[1:] == ["--version"]:
        print(version())  # noqa: T201  no click, no click.echo
    elif missing:
        sys.exit(
            f"The hubbub command needs the server parts (no {missing[0]} here): "
            f"pip install '{distribution()}[server]'. The SDK works without."
        )
    else:
        _run()


def _run() -> None:
    import click
    from click.exceptions import NoArgsIsHelpError

    from hubbub.errors import HubbubError
    from hubbub_cli.all_commands import hubbub
    from hubbub_cli.terminal.wrapped_text import say

    try:
        hubbub(prog_name="hubbub", standalone_mode=False)
    except NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)  # all of the help, which is no error to explain
        sys.exit(error.exit_code)
    except click.UsageError as error:
        if error.ctx is not None:
            click.echo(f"{error.ctx.get_usage()}\nTry '{error.ctx.command_path} --help' for help.\n", err=True)
        say(f"Error: {error.format_message()}")
        sys.exit(error.exit_code)
    except click.ClickException as error:
        say(f"Error: {error.format_message()}")
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        say("stopped")
        sys.exit(_INTERRUPTED)
    except HubbubError as error:
        say(f"Error: {error}")
        sys.exit(1)
    except BrokenPipeError:
        sys.stderr.close()  # the reader went away, as `| head` does: not an error of this command
        sys.exit(1)


if __name__ == "__main__":
    main()
