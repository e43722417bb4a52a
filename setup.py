"""Builds the wheel: the workflow goes into the package, from where it stands at the top level."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

WORKFLOW = ("Snakefile", "config.yaml", "configs", "envs", "profiles", "rules", "scripts")


class BuildWithWorkflow(build_py):
    """Copies the workflow to ``beyond_perplexity/workflow`` of what is built, not of the tree."""

    def run(self) -> None:
        """Build the package, then copy; an editable installation reads the tree itself."""
        if not self.editable_mode:  # what an earlier build left may be gone from the tree
            shutil.rmtree(Path(self.build_lib, "beyond_perplexity"), ignore_errors=True)
        super().run()
        if not self.editable_mode:
            for source, target in self._files():
                Path(target).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, target)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        """List what is built, as an uninstallation needs it."""
        copied = [] if self.editable_mode else [target for _, target in self._files()]
        return [*super().get_outputs(include_bytecode), *copied]

    def _files(self) -> list[tuple[Path, str]]:
        tops = [Path(name) for name in WORKFLOW]
        found = [path for top in tops for path in ([top] if top.is_file() else top.rglob("*"))]
        target = Path(self.build_lib, "beyond_perplexity", "workflow")
        return [
            (path, str(target / path))
            for path in sorted(found)
            if path.is_file() and "__pycache__" not in path.parts
        ]


setup(cmdclass={"build_py": BuildWithWorkflow})
