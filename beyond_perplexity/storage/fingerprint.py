"""The code that a step runs, as one hash: what an addition elsewhere leaves as it is.

Snakemake reruns a rule when its script changes, not when code that the script calls does. So every
rule has the fingerprint of its script among its parameters. It follows names, not files: of a
module the functions, classes and constants that are reached from the script, and what the module
does when it is imported. A template or a file of numbers counts with the statement that names it.

Of a table of rows (an assignment that is annotated as `Rows`) the class of its rows counts alone:
the rows are looked up by name at run time, and a rule names the file of the row that it uses, or
the row itself, ``module:TABLE[key]``.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

PACKAGE = Path(__file__).parents[1]
_CARRIED = PACKAGE / "workflow"  # of an installed package; see setup.py
# The folder of the Snakefile, the rules and the scripts.
ROOT = _CARRIED if _CARRIED.is_dir() else PACKAGE.parent
DATA = (".html", ".rst", ".toml")  # suffixes of files beside a module, which it names by a text
WHOLE = "*"  # every statement of a module
# How a command ends, what it says then and what is noted of its outputs is in no result: of these
# modules the classes count alone.
_AROUND_RESULTS = ("errors.py", "storage/outputs.py")
_AROUND_FILES = {str(PACKAGE / name) for name in _AROUND_RESULTS}
LOADING = ""  # only what a module does when it is imported
REMEMBERED = 5000  # of files and models, what was found

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Part(NamedTuple):
    """A definition of a module, `WHOLE` or `LOADING`, in a file given by its path."""

    file: str
    name: str


# An import statement's name, its module, and what it takes of it (None: the module itself).
_Import = tuple[str, str, str | None]


def _base(name: str) -> Path:
    """Return the folder that the package is in, or that all else is in."""
    return PACKAGE.parent if name == PACKAGE.name else ROOT


def _base_of(file: Path) -> Path:
    return ROOT if file.is_relative_to(ROOT) else PACKAGE.parent


@cache
def _module_file(name: str) -> str | None:
    """Find the file of a module of the package or of the scripts; None for anything else."""
    path = _base(name.partition(".")[0]).joinpath(*name.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return str(path) if path.is_file() else None


def _imported(node: ast.AST) -> Iterator[_Import]:
    """Name what an import statement binds, if it is of the package or of the scripts."""
    found: list[_Import] = []
    if isinstance(node, ast.Import):
        found += [(a.asname or a.name.split(".")[0], a.name, None) for a in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
        found += [(a.asname or a.name, node.module, a.name) for a in node.names]
    for name in found:
        if name[1].partition(".")[0] in (PACKAGE.name, "scripts"):
            yield name


@cache
def _stands_for(module: str, name: str | None) -> list[Part]:
    """Return the parts that an import of a name of a module may mean."""
    whole = _module_file(module if name is None else f"{module}.{name}")
    found = [Part(whole, WHOLE)] if whole else []
    if name is not None and (file := _module_file(module)):
        found.append(Part(file, name))
    return found


@cache
def _shown(file: str) -> str:
    """Return the path of a file below the folder that it is looked for in."""
    return str(Path(file).relative_to(_base_of(Path(file))))


@cache
def _packages(file: str) -> list[Part]:
    """Name the files that importing a module runs first: those of the packages it is in."""
    base, path = _base_of(Path(file)), Path(file)
    folders = [folder for folder in path.parents if folder.is_relative_to(base) and folder != base]
    inits = [folder / "__init__.py" for folder in folders]
    return [Part(str(init), LOADING) for init in inits if init.is_file()]


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


def _rows(table: ast.AnnAssign) -> Iterator[tuple[str, list[ast.stmt]]]:
    """Name the rows of a table; those that are computed have no name."""
    if isinstance(table.value, ast.Dict):
        for key, row in zip(table.value.keys, table.value.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield f"{ast.unparse(table.target)}[{key.value}]", [ast.Expr(row)]


def _is_for_types_only(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.If)
        and not node.orelse
        and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
    )


def _divide(content: bytes, file: str) -> tuple[dict[str, list[ast.stmt]], list[_Import]]:
    """Return the statements of each part of a file (definitions; rows, by ``TABLE[key]``;
    `LOADING`; `WHOLE`, all but the rows), and what is imported at the top."""
    parts: dict[str, list[ast.stmt]] = {WHOLE: [], LOADING: []}
    imports: list[_Import] = []
    for node in _without_docstrings(ast.parse(content, filename=file)).body:
        if _is_table_of_rows(node):
            parts.update(_rows(node))
            parts[ast.unparse(node.target)] = [ast.Expr(node.annotation)]
            parts[WHOLE].append(ast.Expr(node.annotation))
        elif not _is_for_types_only(node):
            for statement in _one_name_each(node):
                imports.extend(_imported(statement))
                is_import = isinstance(statement, ast.Import | ast.ImportFrom)
                for name in list(_defined(statement)) or [LOADING]:
                    held = parts.setdefault(name, [])
                    # not where it imports just what the last one did
                    if not (held and is_import and ast.dump(held[-1]) == ast.dump(statement)):
                        held.append(statement)
                parts[WHOLE].append(statement)
    return parts, imports


def _describe(content: bytes, file: str, around: bool) -> dict[str, Any]:
    """Return a file's imports, and of each part its hash, its names and what it imports itself."""
    (divided, imports), parts = _divide(content, file), {}
    dumped = cache(ast.dump)  # each statement is in `WHOLE`, too
    for name, statements in divided.items():
        if around:
            statements = [node for node in statements if isinstance(node, ast.ClassDef)]
        code = "\n".join(map(dumped, statements))
        nodes = [inner for statement in statements for inner in ast.walk(statement)]
        taken = {id(node.value): node.attr for node in nodes if isinstance(node, ast.Attribute)}
        names = {(n.id, taken.get(id(n), "")) for n in nodes if isinstance(n, ast.Name)}
        texts = (str(node.value) for node in nodes if isinstance(node, ast.Constant))
        parts[name] = {
            "hash": hashlib.sha256(code.encode()).hexdigest() if statements else "",
            "names": sorted(names),
            "imports": [n for node in nodes if node not in statements for n in _imported(node)],
            "data": [text for text in texts if text.endswith(DATA)],
        }
    return {"imports": imports, "parts": parts}


def remembered(what: str, find: Callable[[], Any]) -> Any:
    """Return what JSON can hold, found once for all processes; `what` says all it depends on."""
    key = hashlib.sha256(f"{sys.version} {what}".encode()).hexdigest()[:32]
    # A file a key: no job reads what was found for another one.
    home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    kept = home / "beyond-perplexity" / "found" / f"{key}.json"
    # One that is damaged is as good as none.
    with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
        return json.loads(kept.read_bytes())["found"]
    found = find()
    with suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        beside = kept.with_suffix(f".{os.getpid()}")  # not `outputs`: it comes later
        beside.write_text(json.dumps({"found": found}))
        beside.replace(kept)
        _forget(kept.parent)
    return found


@cache
def _forget(folder: Path) -> None:
    """Remove what was found longest ago beyond what is remembered; once a process."""
    dated = sorted((entry.stat().st_mtime, entry.path) for entry in os.scandir(folder))
    for _, path in dated[:-REMEMBERED]:
        os.unlink(path)


@cache
def _of_file(file: str) -> tuple[dict[str, Any], dict[str, list[Part]], dict[str, str]]:
    """Return what is known of a file, what its imports at the top stand for, those of modules."""
    content, imports, modules = Path(file).read_bytes(), dict[str, list[Part]](), dict[str, str]()
    around = file in _AROUND_FILES
    key = f"parts by names {around} {hashlib.sha256(content).hexdigest()}"
    found = remembered(key, lambda: _describe(content, file, around))
    for bound, module, name in found["imports"]:
        imports.setdefault(bound, []).extend(_stands_for(module, name))
        if name is not None and _module_file(f"{module}.{name}"):
            modules[bound] = f"{module}.{name}"
    return found["parts"], imports, modules


@cache
def _examine(part: Part) -> tuple[str, frozenset[Part]]:
    """Return a line with the hash of a part ('' where it has no code), and what it refers to."""
    parts, imports, modules = _of_file(part.file)
    held = parts.get(part.name) or parts.get("__getattr__") or {}
    found = (
        set() if part.file in _AROUND_FILES else {Part(part.file, LOADING), *_packages(part.file)}
    )
    for name, others in imports.items() if found else ():
        if name in (part.name, "*") or (part.name == WHOLE and name not in modules):
            found.update(others)  # handed on to who imports it from here
        elif part.name == LOADING:  # importing a module imports these
            found.update(Part(other.file, LOADING) for other in others)
    for _, module, taken in held.get("imports", ()):
        found.update(_stands_for(module, taken))
    for name, taken in held.get("names", ()):
        if taken and name in modules:  # of a module only what is named
            found.update(_stands_for(modules[name], taken))
            continue
        found.update(imports.get(name, ()))
        if name in parts:
            found.add(Part(part.file, name))
    code = held.get("hash", "")
    for data in (Path(part.file).parent / name for name in held.get("data", ())):
        code += f" {hashlib.sha256(data.read_bytes()).hexdigest()}" if data.is_file() else ""
    line = f"{_shown(part.file)}:{part.name}={code}\n" if code else ""
    return line, frozenset(found)


def _named(reference: str) -> Part:
    module, colon, name = reference.partition(":")
    if not colon:
        return Part(str(_base(Path(module).parts[0]) / module), WHOLE)
    file = _module_file(module)
    if file is None or not {name, "__getattr__"} & _of_file(file)[0].keys():
        raise FileNotFoundError(f"{reference}: there is no such definition")
    return Part(file, name)


def reached_parts(references: list[str]) -> set[Part]:
    """Return all parts that are reached from references."""
    waiting = [_named(reference) for reference in references]
    seen = set(waiting)
    while waiting:
        fresh = _examine(waiting.pop())[1] - seen
        seen |= fresh
        waiting += fresh
    return seen


@cache
def fingerprint(script: str | Path, *others: str | Path) -> str:
    """Hash the code that a script of the repository reaches, and `others` that it uses without an
    import, files, ``module:name`` or ``module:TABLE[key]``: 16 hexadecimal digits."""
    reached = reached_parts([str(part) for part in (script, *others)])
    lines = sorted(_examine(part)[0] for part in reached)
    return hashlib.sha256("".join(lines).encode()).hexdigest()[:16]
