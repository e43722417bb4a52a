"""Who is at work in a folder: what a killed run left locked is unlocked when nobody is.

Snakemake's locks name no process. So each run has a file in ``.snakemake/runs`` that it and its
jobs hold by ``flock`` and that it removes when it ends; the kernel lets go of it however they end.
The file is named after the boot of the machine: one of another boot may be of another machine, and
a cluster's jobs hold none. Then nobody here can know, and the user is told how to unlock.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shlex
import shutil
import sys
import time
from pathlib import Path

RECORDS, LOCKS = Path(".snakemake/runs"), Path(".snakemake/locks")
_BOOT = Path("/proc/sys/kernel/random/boot_id")
PATIENCE = 3.0  # seconds
_HERE, _ELSEWHERE = "here", "elsewhere"  # where the jobs of a run are

UNLOCKED = "Unlocked what a killed run had left locked; it goes on where that was."
AT_WORK = "A run, or a job that a killed run left behind, is at work in this folder: let it end."
NOT_KNOWN = (
    "A run left this folder locked. Whether it is still at work (on another machine, or on a "
    "cluster) cannot be known here; if it is not, unlock with:\n    {}"
)


class RunRecord:
    """The file of this run; locks that dead runs have left are removed.

    Parameters
    ----------
    results : str
        The folder of all outputs: locks on others are not ours.
    elsewhere : bool
        Whether jobs run on other machines.

    Attributes
    ----------
    said : str
        What the user shall know of locks that there were.
    prefix : str
        For the shell command of a job on this machine: so the job holds the file too.
    """

    def __init__(self, results: str, elsewhere: bool) -> None:
        boot = _BOOT.read_text(encoding="ascii").strip()
        where = _ELSEWHERE if elsewhere else _HERE
        self.path = RECORDS / f"{boot}.{os.getpid()}.{where}"
        self.prefix = f"exec 9<{self.path} && flock -s 9 2>/dev/null || true; "
        RECORDS.mkdir(parents=True, exist_ok=True)
        one_at_a_time = os.open(RECORDS, os.O_RDONLY)
        try:
            fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
            self.said = _settle_locks(boot, results)
            self._file = open(self.path, "w")  # noqa: SIM115
            fcntl.flock(self._file, fcntl.LOCK_SH)
        finally:
            os.close(one_at_a_time)
        self._process = os.getpid()
        atexit.register(self.end)

    def end(self) -> None:
        """Remove the file; a fork of this process leaves it."""
        self._file.close()
        if self._process == os.getpid():
            self.path.unlink(missing_ok=True)


def _settle_locks(boot: str, results: str) -> str:
    """Remove the locks where all who may have made them are dead; say what was found."""
    if "--unlock" in sys.argv:  # the user knows better
        for path in RECORDS.iterdir():
            path.unlink()
        return ""
    locked = any(LOCKS.glob("*.lock"))
    records = list(RECORDS.iterdir())
    ours = [path for path in records if path.name.startswith(f"{boot}.")]
    dead = [path for path in ours if _is_free(path, PATIENCE if locked else 0.0)]
    if locked:
        known = dead == records and all(path.suffix == f".{_HERE}" for path in dead)
        if len(dead) < len(ours):
            return AT_WORK
        if not dead or not known or not _all_in(results):
            return NOT_KNOWN.format(_unlock_command())
        shutil.rmtree(LOCKS)
    for path in dead:
        path.unlink()
    return UNLOCKED if locked else ""


def _is_free(path: Path, patience: float) -> bool:
    """Return whether nobody holds a file; what was just killed gets some seconds to be gone."""
    last = time.monotonic() + patience
    with open(path, encoding="ascii") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                if time.monotonic() >= last:
                    return False
                time.sleep(0.1)


def _all_in(results: str) -> bool:
    """Return whether all outputs that are locked lie in a folder."""
    locked = [file.read_text(encoding="utf-8") for file in LOCKS.glob("*.output.lock")]
    return all(Path(line).is_relative_to(results) for text in locked for line in text.splitlines())


def _unlock_command() -> str:
    return shlex.join([sys.executable, "-m", "snakemake", *sys.argv[1:], "--unlock"])
