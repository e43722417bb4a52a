"""The code that a step runs, as one hash: what an addition elsewhere leaves as it is.

Snakemake reruns a rule when its script changes, not when code that the script calls does. So every
rule has the fingerprint of its script among its parameters. It follows names, not files: of a
module it takes the functions, classes and constants that are reached from the script, and what the
module does when it is imported. A helper, a schema or a class that is added beside them reruns
nothing; an edit reruns just what uses it. A template or a file of numbers that stands beside a
module counts with the statement that names it.

Of a table of rows (an assignment that is annotated as `Rows`) the class of its rows counts alone:
the rows are looked up by name at run time, and a rule names the file of the row that it uses, or
the row itself, ``module:TABLE[key]``.
"""

from __future__ import annotations

import ast
import atexit
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeGuard

PACKAGE = Path(__file__).parents[1]
_CARRIED = PACKAGE / "workflow"  # of an installed package; see setup.py
# The folder of the Snakefile, the rules and the scripts.
ROOT = _CARRIED if _CARRIED.is_dir() else PACKAGE.parent
WHOLE = "*"  # every statement of a module
# How a command ends, what it says then and what is noted of its outputs is in no result: of these
# modules the classes count alone.
_AROUND_RESULTS = ("errors.py", "storage/outputs.py")
DATA = (".html", ".rst", ".toml")  # suffixes of files that a module names by a text
LOADING = ""  # only what a module does when it is imported

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Part(NamedTuple):
    """A definition of a module, `WHOLE` or `LOADING`."""

    file: Path
    name: str


@dataclass(frozen=True)
class _Module:
    """The statements of a file: those that bind a name, and those that do more when imported."""

    loading: list[ast.stmt] = field(default_factory=list)
    # By the name; more than one where a name is defined again
    definitions: dict[str, list[ast.stmt]] = field(default_factory=dict)
    # Of tables of rows, by ``TABLE[key]``: not among those of the whole module
    rows: dict[str, ast.stmt] = field(default_factory=dict)
    # What a name that is imported at the top may stand for
    imports: dict[str, list[Part]] = field(default_factory=dict)

    def statements(self, name: str) -> list[ast.stmt]:
        """Return the statements of one of the module's parts."""
        if name == WHOLE:
            return [*self.loading, *(s for held in self.definitions.values() for s in held)]
        if name == LOADING:
            return self.loading
        if name in self.rows:
            return [self.rows[name]]
        return self.definitions.get(name) or self.definitions.get("__getattr__", [])


def _base(name: str) -> Path:
    """Return the folder that the package is in, or that all else is in."""
    return PACKAGE.parent if name == PACKAGE.name else ROOT


def _base_of(file: Path) -> Path:
    return ROOT if file.is_relative_to(ROOT) else PACKAGE.parent


def _module_file(name: str) -> Path | None:
    """Find the file of a module of the package or of the scripts; None for anything else."""
    parts = name.split(".")
    if parts[0] not in (PACKAGE.name, "scripts"):
        return None
    path = _base(parts[0]).joinpath(*parts)
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return path if path.is_file() else None


def _imported(node: ast.AST) -> Iterator[tuple[str, Part]]:
    """Name what an import statement binds, with the part that it stands for."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            if file := _module_file(alias.name):
                yield alias.asname or alias.name.split(".")[0], Part(file, WHOLE)
    elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
        for alias in node.names:
            bound = alias.asname or alias.name
            if file := _module_file(f"{node.module}.{alias.name}"):
                yield bound, Part(file, WHOLE)
            if file := _module_file(node.module):
                yield bound, Part(file, alias.name)


def _packages(file: Path) -> Iterator[Part]:
    """Name the files that importing a module runs first: those of the packages it is in."""
    base = _base_of(file)
    for folder in file.parents:
        if folder == base or not folder.is_relative_to(base):
            return
        if (folder / "__init__.py").is_file():
            yield Part(folder / "__init__.py", LOADING)


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | _Definition):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = node.body[1:]
    return tree


def _one_name_each(node: ast.stmt) -> list[ast.stmt]:
    """Split an import of several names, so that each stands for itself."""
    if isinstance(node, ast.Import):
        return [ast.Import([alias]) for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [ast.ImportFrom(node.module, [alias], node.level) for alias in node.names]
    return [node]


def _defined(node: ast.stmt) -> Iterator[str]:
    """Name what a statement binds, if it does nothing else."""
    if isinstance(node, _Definition):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.split(".")[0] for alias in node.names)
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if all(isinstance(target, ast.Name) for target in targets):
            yield from (target.id for target in targets if isinstance(target, ast.Name))


def _is_table_of_rows(node: ast.stmt) -> TypeGuard[ast.AnnAssign]:
    return (
        isinstance(node, ast.AnnAssign)
        and isinstance(node.annotation, ast.Subscript)
        and isinstance(node.annotation.value, ast.Name)
        and node.annotation.value.id == "Rows"
    )


def _rows(table: ast.AnnAssign) -> Iterator[tuple[str, ast.stmt]]:
    """Name the rows of a table; those that are computed have no name."""
    if isinstance(table.value, ast.Dict):
        for key, row in zip(table.value.keys, table.value.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield f"{ast.unparse(table.target)}[{key.value}]", ast.Expr(row)


def _is_for_types_only(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.If)
        and not node.orelse
        and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
    )


@cache
def _read(file: Path) -> _Module:
    module = _Module()
    tree = ast.parse(file.read_bytes(), filename=str(file))
    for node in _without_docstrings(tree).body:
        if _is_table_of_rows(node):
            module.rows.update(_rows(node))
            module.definitions[ast.unparse(node.target)] = [ast.Expr(node.annotation)]
            continue
        if _is_for_types_only(node):
            continue
        for statement in _one_name_each(node):
            for name, part in _imported(statement):
                module.imports.setdefault(name, []).append(part)
            names = list(_defined(statement))
            imports = isinstance(statement, ast.Import | ast.ImportFrom)
            for name in names:
                held = module.definitions.setdefault(name, [])
                # not where it imports just what the last one did
                if not (held and imports and ast.dump(held[-1]) == ast.dump(statement)):
                    held.append(statement)
            if not names:
                module.loading.append(statement)
    return module


@cache
def _examine(part: Part) -> tuple[str, frozenset[Part]]:
    """Hash a part and list the parts that it refers to."""
    module = _read(part.file)
    found = {Part(part.file, LOADING), *_packages(part.file)}
    statements = module.statements(part.name)
    if any(part.file == PACKAGE / name for name in _AROUND_RESULTS):
        statements = [node for node in statements if isinstance(node, ast.ClassDef)]
        found = set()
    for name, parts in module.imports.items() if found else ():
        if part.name == WHOLE or name in (part.name, "*"):  # handed on to who imports it from here
            found.update(parts)
        elif part.name == LOADING:  # importing a module imports these
            found.update(Part(other.file, LOADING) for other in parts)
    dumps = [ast.dump(statement) for statement in statements]
    for node in (inner for statement in statements for inner in ast.walk(statement)):
        found.update(other for _, other in _imported(node))
        if isinstance(node, ast.Constant) and str(node.value).endswith(DATA):
            data = part.file.parent / str(node.value)
            dumps += [data.read_text(encoding="utf-8")] if data.is_file() else []
        if isinstance(node, ast.Name):
            found.update(module.imports.get(node.id, ()))
            if node.id in module.definitions:
                found.add(Part(part.file, node.id))
    return hashlib.sha256("\n".join(dumps).encode()).hexdigest() if dumps else "", frozenset(found)


def _named(reference: str) -> Part:
    module, colon, name = reference.partition(":")
    if not colon:
        return Part(_base(Path(module).parts[0]) / module, WHOLE)
    file = _module_file(module)
    if file is None or not _read(file).statements(name):
        raise FileNotFoundError(f"{reference}: there is no such definition")
    return Part(file, name)


@cache
def fingerprint(script: str | Path, *others: str | Path) -> str:
    """Hash a script together with all code of the package that it reaches.

    Comments, blank lines, docstrings and formatting do not count: editing them reruns nothing.

    `script`: the script, relative to the repository; `*others`: what it uses without naming it in
    an import, such as the model family of a config: files, or single definitions as
    ``module:name``, or single rows as ``module:TABLE[key]``.

    Returns 16 hexadecimal digits.

    Raises FileNotFoundError when there is no such script, definition or row.
    """
    references = [str(part) for part in (script, *others)]
    return _known().get(references, lambda: _follow(references))


@cache
def _known() -> FingerprintCache:
    return FingerprintCache(PACKAGE.parent, (PACKAGE.name, "scripts"))


def _follow(references: list[str]) -> str:
    """Hash all parts that are reached from references."""
    waiting = [_named(reference) for reference in references]
    seen = set(waiting)
    while waiting:
        _, found = _examine(waiting.pop())
        fresh = found - seen
        seen |= fresh
        waiting += fresh
    total = hashlib.sha256()
    for part in sorted(seen):
        if code := _examine(part)[0]:
            total.update(
                f"{part.file.relative_to(_base_of(part.file))}:{part.name}={code}\n".encode()
            )
    return total.hexdigest()[:16]


def code_state(root: Path, folders: Sequence[str]) -> str:
    """Hash all code in folders of a checkout byte for byte, and the version of Python."""
    total = hashlib.sha256(sys.version.encode())
    files = (path for folder in folders for path in (root / folder).rglob("*.*"))
    for file in sorted(path for path in files if path.suffix in (".py", *DATA)):
        content = file.read_bytes()
        total.update(f"{file.relative_to(root)}\0{len(content)}\0".encode())
        total.update(content)
    return total.hexdigest()


class FingerprintCache:
    """What is known of one checkout, in a file below ``XDG_CACHE_HOME`` (or ``~/.cache``).

    A file that cannot be read or written is as good as none.
    """

    def __init__(self, root: Path, folders: Sequence[str]) -> None:
        self._root, self._folders = root, folders
        self._state = code_state(root, folders)
        home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        place = hashlib.sha256(os.fsencode(root)).hexdigest()[:16]
        self._file = Path(home).expanduser() / "beyond-perplexity" / f"fingerprints-{place}.json"
        self._found = self._read()
        self._is_new = False
        atexit.register(self.save)

    def _read(self) -> dict[str, str]:
        try:
            held = json.loads(self._file.read_bytes())
            found = held["found"] if held["state"] == self._state else {}
            return {str(key): str(value) for key, value in found.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return {}

    def get(self, references: Sequence[str], find: Callable[[], str]) -> str:
        """Return the fingerprint of references, as it is known or as it is found now."""
        if any(name.replace(".", "/").split("/")[0] not in self._folders for name in references):
            return find()  # other files may have changed
        key = "\n".join(references)
        if key not in self._found:
            self._found[key], self._is_new = find(), True
        return self._found[key]

    def save(self) -> None:
        """Write what was found, beside what other processes have written meanwhile."""
        if not self._is_new:
            return
        with suppress(OSError):
            if code_state(self._root, self._folders) == self._state:  # else it is of neither
                found = {"state": self._state, "found": {**self._read(), **self._found}}
                self._file.parent.mkdir(parents=True, exist_ok=True)
                beside = self._file.with_suffix(f".{os.getpid()}")  # not `outputs`: it comes later
                beside.write_text(json.dumps(found))
                beside.replace(self._file)
