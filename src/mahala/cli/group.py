"""Report the errors of all commands as one line on stderr, with an exit code."""

import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from mahala.cli.parts.output import printable, say
from mahala.support.former_names import OF_COMMANDS
from mahala.support.signals import SIGTERM

# Errors that the user can fix: a wrong value, a missing or unusable file, an extra that is not installed.
FIXABLE = (ValueError, TypeError, OSError, ImportError, MemoryError)


# The exit code if the reader of the output has closed it, as in `mahala ... | head`: 128 + SIGPIPE.
BROKEN_PIPE = 141
# The exit code after SIGTERM: 128 + 15.
TERMINATED = 143


def forget_output() -> None:
    """Drop what stdout still has to print, so that it does not fail again at exit: the reader of the pipe is gone."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _plain_switches(params: list[Any]) -> Iterator[None]:
    """Let --help show a switch as `--flag / --no-flag`, and without a type, as if it took a value."""
    flags = [param for param in params if getattr(param, "is_flag", False)]
    before = [dict(vars(param)) for param in flags]
    for param in flags:
        param.metavar = ""
        if param.secondary_opts:
            default = param.opts[0] if param.default else param.secondary_opts[0]
            param.opts, param.secondary_opts = [f"{param.opts[0]} / {param.secondary_opts[0]}"], []
            param.help, param.show_default = f"{param.help} [default: {default}]", False
    try:
        yield
    finally:  # the same objects read the command line
        for param, values in zip(flags, before, strict=True):
            vars(param).update(values)


class _Reporting:
    """Print errors as messages; with --debug, before or after the command, show the traceback instead."""

    def parse_args(self: Any, ctx: Any, args: list[str]) -> list[str]:
        if ctx.parent is None:
            end = args.index("--") if "--" in args else len(args)
            ctx.meta["debug"] = "--debug" in args[:end]
            args = [arg for at, arg in enumerate(args) if arg != "--debug" or at >= end]
        rest: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        return rest

    def format_help(self: Any, ctx: Any, formatter: Any) -> None:
        with _plain_switches(self.get_params(ctx)):
            super().format_help(ctx, formatter)  # type: ignore[misc]

    def invoke(self: Any, ctx: Any) -> Any:
        if ctx.parent is not None:
            return super().invoke(ctx)  # type: ignore[misc]
        for name in ("stdout", "stderr"):  # closed by `>&-`: what is printed is not wanted
            stream = getattr(sys, name)
            if stream is None:
                setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
            elif getattr(stream, "errors", "") == "strict" and hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")  # Windows' encodings of files and pipes lack many marks
        _print_log()
        if ctx.meta["debug"]:
            return super().invoke(ctx)  # type: ignore[misc]
        try:
            return super().invoke(ctx)  # type: ignore[misc]
        except BrokenPipeError:
            forget_output()
            raise typer.Exit(BROKEN_PIPE) from None
        except KeyboardInterrupt as error:
            typer.echo("interrupted", err=True)
            raise typer.Exit(TERMINATED if str(error) == SIGTERM else 130) from None
        except FIXABLE as error:
            message = with_options(str(error) or type(error).__name__, getattr(error, "parameters", ()))
            if isinstance(error, OSError) and error.strerror and error.filename:
                message = f"{error.filename}: {error.strerror}"
            say(f"error: {message}", err=True)
            raise typer.Exit(2) from None
        except Exception as error:
            if type(error).__module__.startswith(("typer", "click")):
                if hasattr(error, "message"):
                    error.message = printable(error.message)
                raise  # Typer handles Exit, Abort and wrong options
            say(f"error: {type(error).__name__}: {error}; use --debug to show the traceback", err=True)
            raise typer.Exit(1) from None


class Command(_Reporting, TyperCommand):
    """A command: of a group, or one that is a program of its own."""


class Group(_Reporting, TyperGroup):
    """A group of commands, which says what former ones are called now."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if ctx.parent is None and args[0] in OF_COMMANDS and self.get_command(ctx, args[0]) is None:
            raise ValueError(f"there is no command {args[0]!r}: {OF_COMMANDS[args[0]]}")
        return super().resolve_command(ctx, args)


class _StderrHandler(logging.Handler):
    """Print log records on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage(), err=True)


def _print_log() -> None:
    """Print what the library logs, such as that functions are compiled, if stderr is a terminal."""
    log = logging.getLogger("mahala")
    if sys.stderr.isatty() and not any(isinstance(handler, _StderrHandler) for handler in log.handlers):
        log.addHandler(_StderrHandler())
        log.setLevel(logging.INFO)


# Options that have other names than the parameters of the library.
_OPTIONS = {"n_features": "features", "records": "qrels", "query_ids": "queries", "item_ids": "items"}


def with_options(message: str, parameters: Iterable[str]) -> str:
    """Replace parameters that a message of the library names by the options that set them.

    >>> with_options("pass new_input=True, unless first_index=0", ["new_input", "first_index"])
    'pass --new-input, unless --first-index=0'
    """
    for name in parameters:
        option = f"--{_OPTIONS.get(name, name)}".replace("_", "-")
        message = re.sub(rf"\b{name}\b(=True)?", option, message, count=1)
    return message
