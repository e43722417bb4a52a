"""How a command ends, and outlives SIGTERM until SLURM queues its job again.

Needs bash and /dev/full. Oracles: the statuses of the contract (0, 1, 2, 128 + signal), the moment
at which a process ends, and what is on the disk afterwards.
"""

import errno
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from beyond_perplexity import errors as requeue
from beyond_perplexity.errors import InputError, describe_os_error, run_command
from beyond_perplexity.storage.fingerprint import ROOT

HALF_WRITTEN = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # as in the foreground of a shell
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and without nohup
from beyond_perplexity.errors import prepare_process, run_command
prepare_process()
from beyond_perplexity.storage.outputs import atomic_path

def main():
    with atomic_path(sys.argv[1]) as temporary:
        temporary.write_text("half")
        print("begun", flush=True)
        time.sleep(60)

run_command(main)
"""


HEAD = """
import sys, time
from beyond_perplexity.errors import InputError, prepare_process, run_command
prepare_process()
"""


def run(code, redirection=""):
    command = ["bash", "-c", f'"$0" -c "$1" {redirection}', sys.executable, HEAD + code]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


@pytest.mark.parametrize(
    ("raised", "status", "line"),
    [
        ("InputError('a.txt: line 1: is\\n  \\x1b[31m bad')", 1, "a.txt: line 1: is \\x1b[31m bad"),
        ("OSError(28, 'x', 'a.txt')", 1, "a.txt: No space left on device; make room, or name"),
        ("PermissionError(13, 'x', b'a\\xff')", 1, "a\\udcff: Permission denied; check"),
        ("MemoryError('5 GB')", 1, "out of memory (5 GB)"),
        ("KeyboardInterrupt", 130, "stopped by Ctrl-C"),
        ("BrokenPipeError(32, 'x')", 141, None),
        ("SystemExit(2)", 2, None),
    ],
)
def test_status_and_line(raised, status, line, capsys):
    def main():
        raise eval(raised)

    with pytest.raises(SystemExit) as ended:
        run_command(main)
    said = capsys.readouterr().err
    assert ended.value.code == status
    assert (said == "") if line is None else said.startswith(f"error: {line}")
    assert said.count("\n") == (line is not None)


def test_an_error_of_the_code_keeps_its_traceback_and_a_message_is_cut_in_its_middle(capsys):
    def main(error):
        raise error

    with pytest.raises(ValueError, match="mine"):
        run_command(lambda: main(ValueError("mine")))
    with pytest.raises(SystemExit):
        run_command(lambda: main(InputError("first " + "x" * 10**6 + " last")))
    said = capsys.readouterr().err
    assert len(said) < 2_100
    assert said.startswith("error: first x")
    assert said.endswith("x last\n")
    # Of a full disk nobody knows the file: libraries do not say which it was.
    full = describe_os_error(OSError(errno.ENOSPC, "x"))
    assert full.startswith("an output, standard output or the temporary folder /")
    assert describe_os_error(OSError("torn")) == "torn"
    assert describe_os_error(OSError(errno.EIO, "x", 3)) == "3: Input/output error"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_leave_nothing_behind(tmp_path, number):
    command = [sys.executable, "-c", HALF_WRITTEN, str(tmp_path / "out" / "a.json")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    assert list((tmp_path / "out").iterdir())
    begun = time.monotonic()
    os.kill(process.pid, number)
    _, said = process.communicate()
    assert time.monotonic() - begun < 30
    assert process.returncode == 128 + number
    assert said.startswith(b"error: stopped by ")
    assert said.count(b"\n") == 1
    assert list((tmp_path / "out").iterdir()) == []


def test_what_a_shell_ignores_and_what_nobody_can_read():
    """A shell without job control lets its background processes ignore Ctrl-C."""
    code = "import os, signal; run_command(lambda: os.kill(os.getpid(), signal.SIGINT))"
    done = run(code + "; print('lives')", "& wait $!")
    assert (done.returncode, done.stdout) == (0, "lives\n"), done.stderr
    done = run("def main():\n    raise InputError('x')\nrun_command(main)", "2>/dev/full")
    assert (done.returncode, done.stdout) == (1, "")
    code = "import argparse\nrun_command(argparse.ArgumentParser().parse_args)"
    done = run(code, "--help >/dev/full")
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


@pytest.mark.parametrize("lines", [1, 100_000])
def test_standard_output_that_takes_nothing(lines):
    done = run(f"run_command(lambda: print('x\\n' * {lines}))", ">/dev/full")
    assert done.returncode == 1
    reason = "an output, standard output or the temporary folder .*: No space left"
    assert re.match(f"error: {reason}", done.stderr)
    assert done.stderr.count("\n") == 1


def start(folder, **environment):
    """Start a command as a rule does: in a shell with the prefix, its log through tee."""
    (folder / "command.py").write_text(HALF_WRITTEN)
    prefix = requeue.SHELL_PREFIX.replace("{{", "{").replace("}}", "}")
    line = f"{sys.executable} {folder}/command.py {folder}/out/a.csv 2>&1 | tee -a {folder}/log"
    given = {name: value for name, value in os.environ.items() if name != "SLURM_JOB_ID"}
    process = subprocess.Popen(
        ["bash", "-c", prefix + line],
        env={**given, "PYTHONPATH": str(ROOT), **environment},
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_for(folder, "begun")
    return process


def wait_for(folder, text):
    deadline = time.monotonic() + 60
    while not (folder / "log").exists() or text not in (folder / "log").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_shell_and_log_outlive_a_signal_to_all_of_them(tmp_path):
    process = start(tmp_path)
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(60) == 128 + signal.SIGTERM
    assert "error: stopped by SIGTERM" in (tmp_path / "log").read_text()
    assert not list((tmp_path / "out").iterdir())


def test_in_a_slurm_job_the_command_waits_with_nothing_left_behind(tmp_path):
    process = start(tmp_path, SLURM_JOB_ID="7")
    os.killpg(process.pid, signal.SIGTERM)
    wait_for(tmp_path, "stopped by SIGTERM")
    assert not list((tmp_path / "out").iterdir())
    os.killpg(process.pid, signal.SIGTERM)  # SLURM may ask more than once
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(1)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_elsewhere_nothing_waits(monkeypatch):
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("waits"))
    for value in (None, ""):
        monkeypatch.delenv(requeue.JOB, raising=False)
        if value is not None:
            monkeypatch.setenv(requeue.JOB, value)
        requeue.wait_to_be_requeued()
