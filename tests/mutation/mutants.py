"""The mutants of a source, made by cosmic-ray's operators."""

from __future__ import annotations

import ast
import difflib
import re
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

if TYPE_CHECKING:
    from collections.abc import Iterator

# Mutants that change nothing: imports for type checkers, dataclasses that nobody writes to, `zip` over lists
# whose lengths are equal by construction, `==` in place of `is` with None, `is` in place of `==` with a text
# in quotes (Python keeps such texts once, and warns of it).
EQUIVALENT = re.compile(
    r"^(if TYPE_CHECKING:|@dataclass\(|.*strict=True.*\n.*strict=False)|\n.*([!=]= None\b| is (not )?\")"
)


class Mutant(NamedTuple):
    """A mutated source; `old` and `new`: the lines that differ, without indentation."""

    source: str
    old: str
    new: str


def mutants_of(source: str) -> list[Mutant]:
    """Return the mutants of a source, each once, without those that change nothing."""
    lines = source.splitlines(keepends=True)
    mutants = []
    for statement in ast.parse(source).body:  # one by one, since each mutant is parsed anew
        start = min([statement.lineno, *(one.lineno for one in getattr(statement, "decorator_list", ()))]) - 1
        end = statement.end_lineno
        original = "".join(lines[start:end])
        for mutated in _mutated(original):
            old, new = _change(original, mutated)
            if not EQUIVALENT.search(f"{old}\n{new}"):
                text = "".join([*lines[:start], mutated, *lines[end:]])
                mutants.append(Mutant(text, old, new))
    return mutants


def _mutated(source: str) -> Iterator[str]:
    nodes = list(ast_nodes(get_ast(source)))
    seen = {_what_runs(source)}
    for name in operator_names():
        if get_operator(name).arguments():
            continue
        operator = get_operator(name)()
        places = [place for node in nodes for place in operator.mutation_positions(node)]
        for occurrence in range(len(places)):
            mutated = mutate_code(source, operator, occurrence)
            with suppress(SyntaxError):  # the `*` before keyword arguments is taken for an operator
                runs = _what_runs(mutated)
                if runs not in seen:
                    yield mutated
                seen.add(runs)


def _what_runs(source: str) -> str:
    """Return a source without layout, comments and the annotations of functions, dataclasses and modules."""
    tree = ast.parse(source)
    for statement in tree.body:
        _drop_annotation(statement)
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.FunctionDef):
            node.returns = None
            for part in ast.walk(node):
                _drop_annotation(part)
        elif isinstance(node, ast.ClassDef) and any("dataclass" in ast.dump(d) for d in node.decorator_list):
            for part in node.body:
                _drop_annotation(part)
    return ast.dump(tree)


def _drop_annotation(node: ast.AST) -> None:
    if isinstance(node, ast.AnnAssign):
        node.annotation = ast.Constant(value="")


def _change(source: str, mutated: str) -> tuple[str, str]:
    lines = list(difflib.unified_diff(source.splitlines(), mutated.splitlines(), n=0, lineterm=""))[3:]
    old, new = (" ".join(line[1:].strip() for line in lines if line[0] == sign) for sign in "-+")
    return old, new
