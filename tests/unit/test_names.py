"""The house: a public name stands once, imports go down its floors, none goes around.

Oracle: the syntax trees of the package; what finds circles is itself tried on toys.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "beyond_perplexity"

# What a caller finds by one name in whichever module a row gives it.
INTERFACES = dict.fromkeys(("draw", "keep", "LOOKS"), "decoding/*.py")
INTERFACES |= {"main": "commands/*.py", "Reader": "corpus/*.py"}  # of annotated formats
# The engines that all models share, and those of a family that brings its own.
INTERFACES |= dict.fromkeys(("SamplingEngine", "BeamEngine"), "decoding/*.py")
INTERFACES |= dict.fromkeys(("request_of", "read_answer"), "models/served/*.py")

# A module imports from its own floor and from those below it. Subjects are peers.
FLOORS = {
    "base": "errors foreign_text former_names verdicts options arguments signature"
    " random_streams invariant_tensors storage schemas __init__",
    "inference": "inference",
    "language": "corpus vocabulary ngrams instances",
    "models": "models training decoding",
    "subjects": "tendencies perplexities importance contrastive semantics",
    "across": "relations auditing",
    "shown": "figures report",
    "entry": "planning library commands __main__",
}


def module_name(file: Path) -> str:
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


@cache
def modules() -> dict[str, ast.Module]:
    """Parse all modules of the package, by name."""
    files = sorted(PACKAGE.rglob("*.py"))
    return {module_name(file): ast.parse(file.read_text(encoding="utf-8")) for file in files}


def public_names(tree: ast.Module) -> Iterator[str]:
    """List the public classes, functions and constants that a module defines."""
    for node in tree.body:
        names = [getattr(node, "name", "_")]
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            stored = [part for target in targets for part in ast.walk(target)]
            names = [part.id for part in stored if isinstance(part, ast.Name)]
        yield from (name for name in names if not name.startswith("_"))


def imported(node: ast.AST, late: bool = False) -> Iterator[str]:
    """List what is imported when a module is loaded, or late in a function; never for types."""
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.Import):
            yield from (alias.name for alias in part.names)
        elif isinstance(part, ast.ImportFrom):
            assert part.module, "the package has no relative imports"
            yield from (f"{part.module}.{alias.name}" for alias in part.names)
        elif isinstance(part, ast.If) and "TYPE_CHECKING" in ast.dump(part.test):
            yield from (name for other in part.orelse for name in imported(other, late))
        elif late or not isinstance(part, ast.FunctionDef | ast.Lambda):
            yield from imported(part, late)


def import_graph(trees: Mapping[str, ast.Module], late: bool = False) -> dict[str, set[str]]:
    """Return which modules each imports; that a module's folder is loaded first is left out."""
    graph: dict[str, set[str]] = {}
    for name, tree in trees.items():
        parts = imported(tree, late)
        found = (part if part in trees else part.rpartition(".")[0] for part in parts)
        graph[name] = {part for part in found if part in trees} - {name}
    return graph


def folder(name: str) -> str:
    return ".".join(name.split(".")[:2])


def folder_graph(graph: Mapping[str, set[str]]) -> dict[str, set[str]]:
    folders: dict[str, set[str]] = defaultdict(set)
    for name, others in graph.items():
        folders[folder(name)] |= {folder(other) for other in others} - {folder(name)}
    return folders


def circle(graph: Mapping[str, set[str]]) -> list[str]:
    """Return the nodes of a circle, none if there is no circle."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def toy(**texts: str) -> dict[str, set[str]]:
    return import_graph({name.replace("_", "."): ast.parse(text) for name, text in texts.items()})


def test_a_public_name_stands_once_but_for_those_of_interfaces() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for name, tree in modules().items():
        for public in public_names(tree):
            path = f"{name.partition('.')[2].replace('.', '/')}.py"
            if not (public in INTERFACES and Path(path).match(INTERFACES[public])):
                found[public].append(name)
    assert not {name: places for name, places in found.items() if len(set(places)) > 1}
    assert len(found) > 500
    held = [public for tree in modules().values() for public in set(public_names(tree))]
    assert all(held.count(name) > 1 for name in INTERFACES)


def test_no_import_goes_around() -> None:
    graph = import_graph(modules())
    assert (circle(graph), circle(folder_graph(graph))) == ([], [])
    assert sum(map(len, graph.values())) > 500
    around = toy(p_a_x="from p.b.y import f", p_b_y="import p.a.x")
    assert set(circle(around)) == {"p.a.x", "p.b.y"}
    # No module imports one that imports it, but the folders do.
    folders = toy(p_a_x="import p.b.y", p_a_z="", p_b_y="", p_b_w="from p.a import z")
    assert (circle(folders), set(circle(folder_graph(folders)))) == ([], {"p.a", "p.b"})
    late = "if TYPE_CHECKING:\n import p.a.x\ndef f():\n import p.a.x"
    assert circle(toy(p_a_x="import p.b.y", p_b_y=late)) == []


def upward(graph: Mapping[str, set[str]], floors: Mapping[str, str]) -> list[tuple[str, str]]:
    """List the imports that go up, and those from one subject to another."""
    order = {room: floor for floor, rooms in enumerate(floors.values()) for room in rooms.split()}
    subjects = floors["subjects"].split()
    found = []
    for name, others in graph.items():
        for other in others:
            mine, its = ((*part.split("."), "__init__")[1] for part in (name, other))
            across = mine != its and {mine, its} <= set(subjects)
            if order[its] > order[mine] or across:
                found.append((name, other))
    return sorted(found)


def test_imports_go_down_the_floors() -> None:
    """Imports inside functions count."""
    graph = import_graph(modules(), late=True)
    assert (upward(graph, FLOORS), circle(graph)) == ([], [])
    assert sum(map(len, graph.values())) > sum(map(len, import_graph(modules()).values()))
    graph = {"p.low.x": {"p.high.y"}, "p.high.y": {"p.low.x", "p.peer.z"}, "p.peer.z": set()}
    floors = {"base": "low", "subjects": "high peer"}
    assert upward(graph, floors) == [("p.high.y", "p.peer.z"), ("p.low.x", "p.high.y")]


def test_a_figure_never_looks_back_at_the_report() -> None:
    arrows = folder_graph(import_graph(modules()))
    assert "beyond_perplexity.report" not in arrows["beyond_perplexity.figures"]
    assert "beyond_perplexity.figures" in arrows["beyond_perplexity.report"]


def test_public_names_are_found() -> None:
    text = "A, _b = 1, 2\nC: int = 3\ndef d(): e = 4\nclass F:\n  g = 5\ndef _h(): pass"
    assert list(public_names(ast.parse(text))) == ["A", "C", "d", "F"]
