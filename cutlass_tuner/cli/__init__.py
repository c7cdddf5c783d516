"""The command line: `main` is the console script. One thin file a command: parse, call the pipeline, print.

Nothing heavy is imported here: `--help` must answer at once, on any machine.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from pydantic import ValidationError
from typer.main import get_group

from cutlass_tuner import __version__
from cutlass_tuner.cli import build, cache, compare, doctor, export, lab, propose, run, show, tune
from cutlass_tuner.errors import UserError

app = typer.Typer(
    name="cutlass-tuner",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)

CTRL_C = 130

_FULL = {errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""What a write without a place to go fails with: a reader that left, a full disk, a limit that is reached."""

# Of text where a number belongs typer says, by version, "'abc' is not a valid integer" or "Input should be a
# valid integer"; the text is then in the error's cause.
_NO_NUMBER = re.compile(
    r"Invalid value for '(--[\w-]+)': (?:('.*') is not|.*should be) a valid (\w+).*", re.DOTALL
)
_NUMBERS = {"int": "whole number", "integer": "whole number", "float": "number", "number": "number"}

# typer before 0.26 raises click's errors, later ones raise a copy of their own; both stand at this place.
CommandLineError: type[Exception] = typer.BadParameter.__mro__[2]


def _print_version(asked: bool) -> None:
    if asked:
        print(f"cutlass-tuner {__version__}")
        raise typer.Exit


@app.callback()
def top(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Finds the fastest CUTLASS kernel for each of your shapes by measuring, and exports it as C++."""


app.command()(tune.tune)
app.command()(propose.propose)
app.command()(build.build)
app.command()(compare.compare)
app.command()(run.run)
app.command()(show.show)
app.command()(export.export)
app.command()(lab.lab)
app.command()(doctor.doctor)
app.add_typer(cache.app, name="cache")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status.

    0 done; 1 the command's own "no" (doctor found a problem), or its output could not be written; 2 a mistake
    of the user's, told in one line on stderr; 130 ended by Ctrl-C.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        status = app(given or ["--help"], prog_name="cutlass-tuner", standalone_mode=False)
        print(end="", flush=True)  # what Python's own flush at exit cannot write, it tells in a traceback
    except UserError as error:
        return _refuse(str(error))
    except CommandLineError as error:
        return _refuse(_command_line_mistake(error, given))
    except (KeyboardInterrupt, typer.Abort):
        status = CTRL_C
    except OSError as error:
        if error.errno not in _FULL or error.filename is not None:
            raise
        return _give_up_output(error)
    if status == CTRL_C:  # typer from 0.26 on makes this status of a KeyboardInterrupt itself
        print("cutlass-tuner: stopped", file=sys.stderr)
    return status if isinstance(status, int) else 0


def _refuse(text: str) -> int:
    print(f"cutlass-tuner: {' '.join(text.split())}", file=sys.stderr)
    return 2


def _give_up_output(error: OSError) -> int:
    """Tell that a write found no room; a reader that left is not told. What stdout still holds is dropped:
    Python would try to write it again at exit."""
    if sys.stdout is not None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    if error.errno != errno.EPIPE:
        print(f"cutlass-tuner: cannot write to stdout or the cache: {error.strerror}", file=sys.stderr)
    return 1


def _command_line_mistake(error: Exception, given: Sequence[str]) -> str:
    """What typer found wrong, and where to read what is allowed."""
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    message = message.replace("Value error, ", "")  # pydantic's words, in typer's newer versions
    if (told := _NO_NUMBER.fullmatch(message)) and told[3] in _NUMBERS:
        text = told[2]
        if isinstance(error.__cause__, ValidationError):
            text = repr(error.__cause__.errors()[0]["input"])
        message = f"{told[1]} {text} is no {_NUMBERS[told[3]]}"
    return f"{message.rstrip('.')}; see '{_command_path(given)} --help'"


def _command_path(given: Sequence[str]) -> str:
    """The command that these arguments name. Not every error of typer's knows the command it is of."""
    path, commands = ["cutlass-tuner"], get_group(app).commands
    for word in given:
        if word not in commands:
            break
        path.append(word)
        commands = getattr(commands[word], "commands", {})
    return " ".join(path)
