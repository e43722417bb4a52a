"""The one error that bad input raises, and the one place where commands end.

The status of a command is 0 when all is well, 1 for bad input or a failed resource, 2 for a wrong
use of its options (argparse), and 128 + the number of the signal that stopped it: 130 for Ctrl-C,
143 for SIGTERM, 141 when nobody reads its output any more.
"""

from __future__ import annotations

import errno
import os
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from beyond_perplexity.foreign_text import one_line

_STOPPING = (signal.SIGTERM, signal.SIGHUP)
_FULL = (errno.ENOSPC, errno.EDQUOT)
_ADVICE = {
    **dict.fromkeys(_FULL, "make room, or name another folder"),
    errno.EACCES: "check its permissions and those of its folder",
    errno.EPERM: "check its permissions and those of its folder",
    errno.EROFS: "name a folder that can be written to",
    errno.ENAMETOOLONG: "give a shorter name",
    errno.ENOTDIR: "a part of the path is a file; name another folder",
    errno.EISDIR: "name a file",
    errno.ENOENT: "check the path",
    errno.EMFILE: "allow more open files (ulimit -n)",
    errno.ENOMEM: "give it more memory, or less to do at once",
    errno.ELOOP: "its symbolic links go around; name the file itself",
}


# Module -> extra of the package that installs it; all others come with the package itself.
EXTRAS = {
    **dict.fromkeys(("safetensors", "tokenizers", "torch"), "models"),
    **dict.fromkeys(("mwparserfromhell", "pydantic", "snakemake", "textblob", "yaml"), "workflow"),
    **dict.fromkeys(("gensim", "ot"), "semantics"),
    "icu4py": "icu",
    "transformers": "hf",
}


class InputError(Exception):
    """Something the user gave cannot be used.

    The message names the file, line or key, says what is wrong with it and what to do about it.
    """


class NothingToShowError(InputError):
    """The data hold nothing of what a table or figure shows, as those of a few texts may."""


def run_command(main: Callable[[], None]) -> None:
    """Run the main function of a command; what the user can mend ends it with one line.

    SIGTERM, and the end of a terminal, leave it by `SystemExit`, so that what is half written is
    removed.
    """
    with _stopped_by_signals():
        try:
            main()
            sys.stdout.flush()
        except (InputError, OSError, MemoryError) as error:
            _end(*_ending(error))
        except ModuleNotFoundError as error:
            if (lacking := describe_lacking(error)) is None:
                raise
            _end(lacking, 1)
        except KeyboardInterrupt:
            _end("stopped by Ctrl-C", 128 + signal.SIGINT)
        except Stopped as stopped:  # after the progress bars are closed
            number = int(str(stopped)) - 128
            _end(f"stopped by {signal.Signals(number).name}", 128 + number, wait_to_be_requeued)
        except SystemExit:
            if _stream_fails():  # as of --help
                _silence()
            raise


class Stopped(SystemExit):
    """A signal asks the process to end."""


def prepare_process() -> None:
    """Do what must come before a command's imports, which take seconds and open files."""
    # Ctrl-C while they last ends the process at once, without a traceback out of their midst; in
    # the background of a shell it is ignored, and stays so.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def os_error_number(error: OSError) -> int | None:
    """Return the number of a system's error, also where NumPy tells of a full disk in words."""
    short = re.fullmatch(r"\d+ requested and \d+ written", str(error))
    return errno.ENOSPC if short else error.errno


def describe_os_error(error: OSError) -> str:
    """Say in one clause which file the system refused, why, and what to do."""
    number = os_error_number(error) or 0
    reason = os.strerror(number) if number else str(error).rstrip(".")
    name = error.filename
    if name is None and number in _FULL:
        name = f"an output, standard output or the temporary folder {tempfile.gettempdir()}"
    name = os.fsdecode(name) if isinstance(name, bytes) else str(name or "")
    advice = f"; {_ADVICE[number]}" if number in _ADVICE else ""
    return ": ".join(filter(None, [name, reason])) + advice


def describe_lacking(error: ModuleNotFoundError) -> str | None:
    """Say which extra of the package has the module that is lacking; None: no extra has it."""
    module = (error.name or "").partition(".")[0]
    if module not in EXTRAS:
        return None
    advice = f"install it with: pip install 'beyond-perplexity[{EXTRAS[module]}]'"
    return f"this needs {module}, which is not installed; {advice}"


@contextmanager
def extras_named() -> Iterator[None]:
    """Turn the lack of a package that an extra installs into an `InputError` that names it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (lacking := describe_lacking(error)) is None:
            raise
        raise InputError(lacking) from error


def _ending(error: Exception) -> tuple[str, int]:
    """Return the message and the status that an error ends a command with."""
    if isinstance(error, InputError):
        return str(error), 1
    if isinstance(error, BrokenPipeError):  # the reader of a filter, such as head, has seen enough
        return "", 128 + signal.SIGPIPE
    if isinstance(error, OSError):
        return describe_os_error(error), 1
    return f"out of memory ({error}); give it more, or less to do at once", 1


def _end(message: str, status: int, before: Callable[[], None] = lambda: None) -> None:
    try:
        if message:
            print(f"error: {one_line(message)}", file=sys.stderr, flush=True)
    except OSError:  # then the status alone must tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    if _stream_fails():
        _silence()
    before()
    sys.exit(status)


def _stream_fails() -> bool:
    """Return whether what was printed cannot be written."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        return True
    return False


def _silence() -> None:
    """Let the interpreter flush what it holds of standard output to nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """Turn the signals that stop a process into `SystemExit`; a handler that is set stays."""

    def stop(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)  # a second one would cut the clearing up short
        raise Stopped(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = [number for number in _STOPPING if signal.getsignal(number) == signal.SIG_DFL]
    interrupts = signal.getsignal(signal.SIGINT)
    if interrupts == signal.SIG_DFL:  # as while a command is imported
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in ours:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, interrupts)


JOB = "BEYOND_PERPLEXITY_JOB"  # set by the rules: the id of the SLURM job, if it is one
LONGEST_WAIT = 300.0  # seconds
# Before the command of every rule. SIGTERM, with which SLURM announces the end of a job, reaches
# all of its processes: the command shall write what it has; the shell and the log (tee) outlive it.
SHELL_PREFIX = (
    "set -euo pipefail; trap : TERM; tee() (trap '' TERM; exec tee \"$@\"); "
    f"export {JOB}=${{{{SLURM_JOB_ID-}}}}; "  # in braces for Snakemake, which formats it
)


def wait_to_be_requeued() -> None:
    """Wait for the end of the SLURM job, of which SIGTERM was the announcement.

    A job that is preempted is queued again if it still runs at the end of its time of grace. If it
    ends before, it has failed for SLURM, and one of Snakemake's retries is gone. A job that is
    cancelled or out of time ends no later for it than SLURM has it end. Elsewhere nothing happens.
    """
    if os.environ.get(JOB):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it may come more than once
        time.sleep(LONGEST_WAIT)
