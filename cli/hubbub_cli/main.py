"""The `hubbub` command itself: which subcommands there are, and how errors leave."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command; a caller's mistake ends in one line on stderr, never in a traceback."""
    try:
        import click
    except ModuleNotFoundError:
        sys.exit("The hubbub command needs the server parts: pip install 'hubbub[server]'. The SDK works without.")

    from hubbub.problems import HubbubError
    from hubbub_cli.commands import hubbub

    try:
        hubbub(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit("stopped")
    except HubbubError as error:
        sys.exit(f"Error: {error}")
    except BrokenPipeError:
        sys.stderr.close()  # the reader went away, as `| head` does; that is no error of ours
        sys.exit(1)


if __name__ == "__main__":
    main()
