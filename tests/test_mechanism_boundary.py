"""The wall around mechanisms: nobody else asks which one it is. What they may import is in `test_architecture`."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_architecture import PACKAGES, ROOT, name_of, sources, within

MECHANISMS = ("dprelease.mechanisms",)
NAMES = {"mixed", "rows", "moments", "ranges", "synthetic-control"}
TERMS = {"MixedTerms", "RowsTerms", "NoisyRowsTerms", "JointMoments", "RangesTerms", "SyntheticControlTerms"}
VARIANTS = {"OutcomeMoments"}
OWN_FIELDS = {"mixing", "anchor_weight", "association", "rho", "noise", "curious", "dealer", "public_norm2"}
MOST_BRANCHES = 5

VIEWS = {"NoisyRows", "NoisyMoments", "OutcomeMoments", "Moments", "Ranges", "Panel"}
WORDS = {
    "stream",
    "streams",
    "checkpoint",
    "checkpoints",
    "continual",
    "clipping",
    "clipped",
    "ranged",
    "clipping_corrected",
    "schedule",
}


def _asks(test: ast.expr) -> bool:
    """Whether a condition asks for a mechanism: by name, by its terms' class or fields, or by a variant of what it releases."""
    for node in ast.walk(test):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            named = any(isinstance(side, ast.Constant) and side.value in NAMES for side in sides)
            attributes = {each.attr for side in sides for each in ast.walk(side) if isinstance(each, ast.Attribute)}
            plain = {each.id for side in sides for each in ast.walk(side) if isinstance(each, ast.Name)}
            if named and any("mechanism" in word for word in attributes | plain):
                return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            classes = {each.id for each in ast.walk(node.args[1]) if isinstance(each, ast.Name)}
            if classes & (TERMS | VARIANTS):
                return True
        if isinstance(node, ast.Attribute) and node.attr in OWN_FIELDS and _name(node.value) in {"spec", "terms"}:
            return True
    return False


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _conditions(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert):
            yield node.test
        elif isinstance(node, ast.comprehension):
            yield from node.ifs
        elif isinstance(node, ast.Match):
            yield node.subject


def _asks_how_it_was_made(test: ast.expr) -> bool:
    """Whether a condition asks for a view, for clipping, for a stream or for a session, by a name that says so."""
    for node in ast.walk(test):
        if isinstance(node, ast.Attribute) and node.attr == "joint" and _name(node.value) == "spec":
            return True
        name = _name(node)
        if name in VIEWS or WORDS & set(name.lower().split("_")):
            return True
    return False


def questions() -> list[str]:
    """Conditions outside mechanisms that ask for a view, for clipping, for a stream or for a session."""
    return [
        f"{path.relative_to(ROOT)}:{test.lineno}"
        for path in sources(*PACKAGES)
        if not within(name_of(path), (*MECHANISMS, "dprelease.mpc"))  # which is given a session, and asks for none
        for test in _conditions(ast.parse(path.read_text()))
        if _asks_how_it_was_made(test)
    ]


def branches(path: Path) -> list[str]:
    found = [test for test in _conditions(ast.parse(path.read_text())) if _asks(test)]
    return [f"{path.relative_to(ROOT)}:{test.lineno}" for test in found]


def test_nobody_else_asks_which_mechanism_it_is() -> None:
    """What there is to read of a release (rows or moments) may be asked; how it was made may not."""
    outside = [path for path in sources(*PACKAGES) if not within(name_of(path), MECHANISMS)]
    found = [place for path in outside for place in branches(path)]
    assert len(found) <= MOST_BRANCHES, found


@pytest.mark.parametrize(
    "text",
    [
        "if spec.mechanism == 'moments': pass",
        "x = 1 if mechanism in ('rows',) or mechanism == 'rows' else 2",
        "assert isinstance(spec.terms, JointMoments)",
        "if release.spec.terms.mixing is None: pass",
        "[x for x in y if isinstance(x, OutcomeMoments)]",
    ],
)
def test_the_count_sees_a_branch(text: str, tmp_path: Path) -> None:
    assert [test for test in _conditions(ast.parse(text)) if _asks(test)]


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("if isinstance(view, NoisyRows): pass", True),
        ("x = 1 if moments.clipping is None else 2", True),
        ("[x for x in y if x.continual is not None]", True),
        ("while schedule is None: pass", True),
        ("assert release.ranged", True),
        ("if record.spec.joint: pass", True),
        ("if moments.joint.noise_sd.any(): pass", False),
        ("if upstream or rescheduled: pass", False),
        ("view = NoisyRows()", False),
    ],
)
def test_the_count_sees_a_question(text: str, seen: bool) -> None:
    assert any(map(_asks_how_it_was_made, _conditions(ast.parse(text)))) is seen
