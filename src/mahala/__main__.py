"""The `mahala` command, which is also `python -m mahala`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line, or say which extra it needs."""
    try:
        from mahala.cli.main import app
    except ImportError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    app()


if __name__ == "__main__":
    main()
