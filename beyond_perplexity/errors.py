"""The one error that bad input raises, and the one place where scripts turn it into a message."""

from __future__ import annotations

import sys
from collections.abc import Callable


class InputError(Exception):
    """Something the user gave cannot be used.

    The message names the file, line or key, says what is wrong with it and what to do about it.
    """


def run_command(main: Callable[[], None]) -> None:
    """Run the main function of a command; an `InputError` ends it with one line and status 2.

    Parameters
    ----------
    main : callable
        The command's main function, without arguments.
    """
    try:
        main()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # the reader of a filter, such as head, has seen enough
        sys.stderr.close()
        sys.exit(0)
