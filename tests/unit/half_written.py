"""A command that a signal finds with its output half written."""

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
