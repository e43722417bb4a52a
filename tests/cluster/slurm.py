"""A real SLURM on this one machine, for tests: `python -m tests.cluster.slurm start|stop|status`.

It needs root and Debian's packages ``slurm-wlm`` and ``munge``. Everything it writes lies in one
folder, nothing in ``/etc`` is changed, the ports are free ones of the loopback, and several
such clusters can run side by side.
"""

import argparse
import contextlib
import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(tempfile.gettempdir()) / "beyond-perplexity-slurm"
PROGRAMS = (
    *("slurmd", "slurmctld", "munged", "sbatch", "scancel"),
    *("scontrol", "sinfo", "squeue", "srun"),
)
SECONDS_TO_START = 30
SECONDS_TO_STOP = 15

# CPUs and memory are invented (config_overrides), so that a job that asks for a cluster's share is
# accepted; who calls limits the jobs that run at the same time. The GPUs are two character devices
# that exist everywhere: SLURM checks no more than that, and sets CUDA_VISIBLE_DEVICES for them.
SLURM_CONF = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={control_port}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
SlurmdUser=root
SlurmctldPidFile={folder}/slurmctld.own.pid
SlurmdPidFile={folder}/slurmd-%n.own.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
KillWait=10
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
TaskProlog={folder}/record_task
JobAcctGatherType=jobacct_gather/linux
AccountingStorageType=accounting_storage/none
MpiDefault=none
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
GresTypes=gpu
PropagateResourceLimits=NONE
MinJobAge=86400
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 GraceTime=15
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=2 PreemptMode=OFF
"""
# Nodes of one machine, with a daemon each; the first alone has GPUs.
NODE = (
    "NodeName=node{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} "
    "CPUs=64 RealMemory=1000000{gres}"
)
GRES_CONF = "NodeName=node1 Name=gpu File=/dev/null,/dev/zero\n"
RECORD_TASK = """\
#!/bin/sh
echo "$SLURM_JOB_ID ${{CUDA_VISIBLE_DEVICES-none}}" >> {folder}/tasks
"""
# The executor plugin takes SLURM_CONF out of the environment of the srun that it starts in a job.
SRUN = """\
#!/bin/sh
SLURM_CONF={folder}/slurm.conf exec {srun} "$@"
"""


def reason_to_skip() -> str | None:
    """Say why no SLURM can be started here; None when it can."""
    missing = [program for program in PROGRAMS if _find(program) is None]
    if missing:
        return f"needs Debian's packages slurm-wlm and munge: no {', '.join(missing)}"
    if os.geteuid() != 0:
        return "needs root to start SLURM's daemons"
    return None


@dataclass(frozen=True)
class Cluster:
    """A cluster, with two pretended GPUs on its first node, whose state lies in a folder."""

    folder: Path  # absolute, and short enough for a socket in it (about 90 characters)
    nodes: int = 1  # all of this machine

    @property
    def node_daemons(self) -> list[str]:
        return [f"slurmd-node{number}" for number in range(1, self.nodes + 1)]

    def environment(self) -> dict[str, str]:
        """Return the variables with which SLURM's commands find this cluster."""
        path = os.pathsep.join([f"{self.folder}/bin", os.environ["PATH"], "/usr/sbin"])
        return {"SLURM_CONF": f"{self.folder}/slurm.conf", "PATH": path}

    def ask(self, *command: str) -> str:
        """Run one of SLURM's commands and return what it printed."""
        environment = {**os.environ, **self.environment()}
        done = subprocess.run(
            command, env=environment, check=True, capture_output=True, text=True, timeout=60
        )
        return done.stdout

    def start(self) -> None:
        """Start the three daemons and wait until the node is idle.

        If it does not come up nothing is left running; the error has the daemons' last lines.
        """
        self.folder.mkdir(mode=0o755)
        self._configure()
        socket_path = self.folder / "munge.socket"
        try:
            self._launch(
                "munged",
                "munged",
                "--foreground",
                "--force",  # else it refuses a folder below one that others may write to
                f"--socket={socket_path}",
                f"--key-file={self.folder}/munge.key",
                f"--pid-file={self.folder}/munged.own.pid",
                f"--seed-file={self.folder}/munge.seed",
            )
            self._wait_for("munged", socket_path.exists)
            for name in ("slurmctld", *self.node_daemons):
                self.launch(name)
            self._wait_for("an idle node", lambda: self.node_state() == "idle")
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Cancel the jobs and end the daemons; the folder and its logs stay."""
        if self.node_state() is not None:
            with contextlib.suppress(subprocess.SubprocessError):
                self.ask("scancel", "--full", "--signal=KILL", "--user=root")
                self.ask("scancel", "--user=root")
                _wait(lambda: not self.ask("squeue", "--noheader"), SECONDS_TO_STOP)
        for name in (*self.node_daemons, "slurmctld", "munged"):
            self.end(name)

    def node_state(self) -> str | None:
        """Return the state of the node as SLURM names it; None when no daemon answers."""
        if self._process("slurmctld") is None:  # sinfo would look for a controller for a minute
            return None
        try:
            states = self.ask("sinfo", "--noheader", "--partition=main", "--format=%T").split()
            return " ".join(dict.fromkeys(states))
        except (subprocess.SubprocessError, OSError):
            return None

    def jobs(self) -> list[dict[str, str]]:
        """Return what ``scontrol`` knows of every job since the start: key to value, as text."""
        lines = self.ask("scontrol", "--oneliner", "show", "jobs").splitlines()
        pairs = ([word.partition("=") for word in line.split()] for line in lines)
        return [{key: value for key, _, value in found} for found in pairs if len(found) > 10]

    def visible_gpus(self) -> dict[str, set[str]]:
        """Return each job's values of CUDA_VISIBLE_DEVICES in its tasks; ``none`` for unset."""
        found: dict[str, set[str]] = {}
        for line in (self.folder / "tasks").read_text().splitlines():
            job, value = line.split()
            found.setdefault(job, set()).add(value)
        return found

    def logs(self) -> str:
        parts = []
        for name in (*self.node_daemons, "slurmctld", "munged"):
            path = self.folder / f"{name}.log"
            if path.exists():
                lines = path.read_text(errors="replace").splitlines()[-30:]
                parts.append("\n".join([f"--- {path}", *lines]))
        return "\n".join(parts)

    def _configure(self) -> None:
        for name in ("state", "spool", "bin"):
            (self.folder / name).mkdir()
        control_port, *ports = _free_ports(1 + self.nodes)
        host = socket.gethostname().partition(".")[0]
        nodes = [
            NODE.format(number=k, host=host, port=port, gres=" Gres=gpu:2" if k == 1 else "")
            for k, port in enumerate(ports, 1)
        ]
        conf = SLURM_CONF.format(
            host=host, folder=self.folder, control_port=control_port, nodes="\n".join(nodes)
        )
        (self.folder / "slurm.conf").write_text(conf)
        (self.folder / "gres.conf").write_text(GRES_CONF)
        (self.folder / "cgroup.conf").write_text(_cgroup_conf())
        (self.folder / "tasks").touch()
        _write_script(self.folder / "record_task", RECORD_TASK.format(folder=self.folder))
        srun = SRUN.format(folder=self.folder, srun=_find("srun"))
        _write_script(self.folder / "bin" / "srun", srun)
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))

    def launch(self, name: str) -> None:
        """Start ``slurmctld`` or a daemon of `node_daemons`, for the first time or again."""
        program, _, node = name.partition("-")
        self._launch(
            name, program, "-D", "-f", f"{self.folder}/slurm.conf", *(["-N", node] * bool(node))
        )

    def _launch(self, name: str, program_name: str, *arguments: str) -> None:
        """Start a daemon in a session of its own, so that it outlives the command `start`."""
        program = _find(program_name)
        assert program is not None
        with open(self.folder / f"{name}.log", "ab") as log:
            process = subprocess.Popen(
                [program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
            )
        (self.folder / f"{name}.pid").write_text(f"{process.pid}\n")
        # It is ended by its id, by whichever command stops the cluster: no warning of a leak here.
        process.returncode = 0

    def _wait_for(self, what: str, condition: Callable[[], bool]) -> None:
        if not _wait(condition, SECONDS_TO_START):
            raise RuntimeError(
                f"SLURM did not start: no {what} in {SECONDS_TO_START} s\n{self.logs()}"
            )

    def _process(self, name: str) -> int | None:
        """Return the id of a daemon that runs and is ours: its command names our folder."""
        try:
            pid = int((self.folder / f"{name}.pid").read_text())
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            return None
        return pid if os.fsencode(self.folder) in command else None

    def end(self, name: str, *signals: signal.Signals) -> None:
        """End a daemon, by SIGTERM and, if it does not help, SIGKILL, or by other signals."""
        for number in signals or (signal.SIGTERM, signal.SIGKILL):
            pid = self._process(name)
            if pid is None:
                break
            os.kill(pid, number)
            _wait(lambda: self._process(name) is None, SECONDS_TO_STOP)


@contextlib.contextmanager
def running_cluster(nodes: int = 1) -> Iterator[Cluster]:
    """Start a cluster in a temporary folder; stop it and remove the folder at the end."""
    with tempfile.TemporaryDirectory(prefix="slurm-") as parent:
        cluster = Cluster(Path(parent) / "cluster", nodes)
        cluster.start()
        try:
            yield cluster
        finally:
            cluster.stop()


def _find(program: str) -> str | None:
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin")


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def _cgroup_conf() -> str:
    """Keep SLURM from control groups: `disabled`, or, where it knows no such name, unmounted."""
    program = _find("slurmctld")
    assert program is not None
    printed = subprocess.run([program, "-V"], check=True, capture_output=True, text=True).stdout
    major, minor = printed.split()[-1].split(".")[:2]
    if (int(major), int(minor)) >= (23, 11):
        return "CgroupPlugin=disabled\n"
    return "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n"


def _write_script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def _wait(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait until the condition holds; False when it does not within the time."""
    end = time.monotonic() + seconds
    while not (held := condition()) and time.monotonic() < end:
        time.sleep(0.1)
    return held


def main() -> None:
    """Start, stop or show the cluster in a folder."""
    parser = argparse.ArgumentParser(description="A real SLURM on this machine, for tests.")
    parser.add_argument("action", choices=["start", "stop", "status"])
    parser.add_argument(
        "--folder", type=Path, default=FOLDER, help="where its state and logs lie (%(default)s)"
    )
    arguments = parser.parse_args()
    cluster = Cluster(arguments.folder.absolute())
    if arguments.action == "start":
        if reason := reason_to_skip():
            sys.exit(f"error: {reason}")
        try:
            cluster.start()
        except (FileExistsError, RuntimeError) as error:
            sys.exit(f"error: {error}; `stop` removes what is left")
        for name, value in cluster.environment().items():
            print(f"export {name}={shlex.quote(value)}")
    elif arguments.action == "stop":
        cluster.stop()
        shutil.rmtree(cluster.folder, ignore_errors=True)
    else:
        state = cluster.node_state()
        print(state or "not running")
        sys.exit(0 if state else 1)


if __name__ == "__main__":
    main()
