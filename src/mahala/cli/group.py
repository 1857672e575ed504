"""How every command fails: in one line on stderr, with an exit code."""

from __future__ import annotations

import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

# What a user can mend: a wrong value, a file that is not there or cannot be used, an extra that is not installed.
MENDABLE = (ValueError, TypeError, OSError, ImportError, MemoryError)


class Group(TyperGroup):
    """Commands whose errors are words; --debug, before or after the command, shows the traceback instead."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        ctx.meta["debug"] = "--debug" in args[:end]
        return super().parse_args(ctx, [arg for at, arg in enumerate(args) if arg != "--debug" or at >= end])

    def invoke(self, ctx: Any) -> Any:
        if ctx.meta["debug"]:
            return super().invoke(ctx)
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # The reader of a pipe has gone, as in `mahala ... | head`: nothing is left to say, at exit neither.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            typer.echo("interrupted", err=True)
            raise typer.Exit(130) from None
        except MENDABLE as error:
            typer.echo(f"error: {_words(error)}", err=True)
            raise typer.Exit(2) from None
        except Exception as error:
            if type(error).__module__.startswith(("typer", "click")):
                raise  # Exit, Abort and wrong options have their own ways
            typer.echo(f"error: {type(error).__name__}: {error}; --debug shows where it comes from", err=True)
            raise typer.Exit(1) from None


def _words(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__
