"""The shape of the source: who imports whom, where secret randomness comes from, how long a file may be."""

import ast
import importlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import dprelease

ROOT = Path(__file__).parents[1]
ROLES = ("party_node", "coordinator", "learner")
PACKAGES = ("dprelease", *ROLES)
FORBIDDEN_IN_CORE = (
    "grpc",
    "grpc_status",
    "google",
    "click",
    "rich",
    "sqlalchemy",
    "dprelease.wire",
    "dprelease.cli",
    *ROLES,
)
DIALLING = ("http", "urllib.request", "urllib3", "socket", "ssl", "subprocess", "asyncio", "distributed")
"""Modules by which a hospital's node could reach beyond its process."""

LONGEST = 500


def sources(*packages: str) -> Iterator[Path]:
    """Source files written by hand; a folder that does not exist contributes none."""
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            if "wire/v1" not in path.as_posix():
                yield path


def core() -> Iterator[Path]:
    outside = (ROOT / "dprelease" / "wire", ROOT / "dprelease" / "cli")  # transport, and what commands share
    return (path for path in sources("dprelease") if not any(path.is_relative_to(each) for each in outside))


def name_of(path: Path) -> str:
    """Dotted module name."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(tree: ast.AST, module: str = "", *, package: bool = False) -> set[str]:
    """Dotted names of everything imported anywhere in a module, in functions too; relative ones resolved."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = module.split(".")[: len(module.split(".")) - node.level + (1 if package else 0)]
                base = ".".join([*above, *([node.module] if node.module else [])])
            found |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return found


@cache
def parsed(path: Path) -> ast.Module:
    """Its syntax, read once for all tests."""
    return ast.parse(path.read_text())


@cache
def imports_of(path: Path) -> set[str]:
    return imports(parsed(path), name_of(path), package=path.name == "__init__.py")


def within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def offenders(paths: Iterator[Path], forbidden: tuple[str, ...]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in paths
        for name in sorted(imports_of(path))
        if within(name, forbidden)
    ]


def names_global_random(tree: ast.AST) -> bool:
    """Whether a module imports `random` or names NumPy's: neither is fit for noise, nor specified to the bit."""
    if any(within(name, ("random", "numpy.random")) for name in imports(tree)):
        return True
    return any(
        isinstance(node, ast.Attribute)
        and node.attr == "random"
        and isinstance(node.value, ast.Name)
        and node.value.id in {"np", "numpy"}
        for node in ast.walk(tree)
    )


@cache
def attributes(path: Path) -> set[str]:
    """Every attribute and name that a module uses."""
    nodes = list(ast.walk(parsed(path)))
    used = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    return used | {node.id for node in nodes if isinstance(node, ast.Name)}


def test_the_core_knows_nothing_of_networks_commands_databases_or_roles() -> None:
    assert len(list(core())) > 20
    assert offenders(core(), FORBIDDEN_IN_CORE) == []


def test_secure_products_know_no_statistic() -> None:
    """Nor a spec, a release or a role: widths, bits and a digest are all that they are told. Keys sign their messages."""
    known = ("dprelease.mpc", *(f"dprelease.{name}" for name in ("arrays", "canonical", "errors", "identity.signing")))
    paths = list(sources("dprelease/mpc"))
    assert len(paths) > 10
    others = {name for path in paths for name in imports_of(path) if within(name, PACKAGES) and name != "dprelease"}
    assert {name for name in others if not within(name, known)} == set()


def test_intersections_know_no_patient_and_no_mechanism() -> None:
    """Keyed identifiers are elements to them; from sessions of products they have messages, rounds and keystreams."""
    shared = ("correspondence", "encryption", "messages", "ring", "round", "schedule", "storage")
    known = (
        "dprelease.intersection",
        *(f"dprelease.{name}" for name in ("arrays", "canonical", "errors", "identity.signing")),
    )
    paths = list(sources("dprelease/intersection"))
    assert len(paths) > 5
    others = {name for path in paths for name in imports_of(path) if within(name, PACKAGES) and name != "dprelease"}
    sessions = {"dprelease.mpc", *(f"dprelease.mpc.{name}" for name in shared)}
    assert {
        name for name in others if not within(name, known) and not within(name, tuple(sessions - {"dprelease.mpc"}))
    } <= {"dprelease.mpc"}


def test_who_only_relays_an_alignment_needs_no_curve() -> None:
    """The hub and the coordinator check tasks and messages without the package that only hospitals install."""
    root = ROOT / "dprelease" / "intersection"
    light = [root / f"{name}.py" for name in ("task", "ring")]
    heavy = tuple(f"dprelease.intersection.{name}" for name in ("curve", "exchange", "key_value_store", "session"))
    assert offenders(iter(light), ("gmpy2", *heavy)) == []


def test_a_mechanism_knows_no_whole_release_and_no_other_mechanism() -> None:
    whole = ("estimators", "mechanisms.registry", "privatization", "release")
    root = ROOT / "dprelease" / "mechanisms"
    rooms = [path.parent.name for path in sorted(root.glob("*/__init__.py"))]
    assert len(rooms) > 1
    for room in rooms:
        others = {f"mechanisms.{other}" for other in rooms if other != room}
        forbidden = tuple(f"dprelease.{name}" for name in (*whole, *others))
        assert offenders(sources(f"dprelease/mechanisms/{room}"), forbidden) == []
    assert offenders(iter([root / "base.py"]), tuple(f"dprelease.{name}" for name in whole)) == []


def test_analyses_know_the_view_and_no_mechanism() -> None:
    paths = list(sources("dprelease/analyses"))
    assert len(paths) > 10
    asked = {name for path in paths for name in imports_of(path) if within(name, ("dprelease.mechanisms",))}
    view = "dprelease.mechanisms.moments.released"
    assert asked == {view, f"{view}.Moments", f"{view}.NoisyMoments"}


WRITING = ("dprelease.document", "dprelease.publication", "learner.hub.list_page", "dprelease.report")


def test_pages_are_written_in_one_room_with_the_package_that_learners_install() -> None:
    """The core imports no package of an extra: whoever writes no page needs no jinja2."""
    assert [name_of(path) for path in sources(*PACKAGES) if within("jinja2", tuple(imports_of(path)))] == [
        "dprelease.document.html"
    ]
    writing = [name_of(path) for path in sources(*PACKAGES) if "dprelease.document.html" in imports_of(path)]
    assert [name for name in writing if not within(name, WRITING)] == []
    lazily = parsed(ROOT / "dprelease" / "document" / "text.py").body  # for a notebook, where the package is there
    assert not any(
        within("dprelease.document.html", tuple(imports(node))) for node in lazily if not isinstance(node, ast.ClassDef)
    )


def test_the_wire_knows_no_role() -> None:
    assert offenders(sources("dprelease/wire"), ROLES) == []


@pytest.mark.parametrize("role", ROLES)
def test_roles_do_not_import_one_another(role: str) -> None:
    assert offenders(sources(role), tuple(other for other in ROLES if other != role)) == []


def test_a_hospital_opens_channels_from_one_room_and_to_a_cluster_of_its_own() -> None:
    calling = {path for path in sources("party_node") if _opens_a_channel(path)}
    assert calling
    assert {path.parent.name for path in calling} == {"outgoing", "cluster"}


def _opens_a_channel(path: Path) -> bool:
    return any(
        name.endswith("wire.transport.connect") or "_pb2_grpc" in name or within(name, DIALLING)
        for name in imports_of(path)
    )


def test_only_one_room_of_a_hospital_reads_its_table() -> None:
    reading = {path for path in sources("party_node") if within("pyarrow.csv", tuple(imports_of(path)))}
    assert {path.parent.name for path in reading} == {"source"}
    drivers = ("adbc_driver_manager", "adbc_driver_postgresql")
    asking = {path.parent.name for path in sources(*PACKAGES) if any(within(n, drivers) for n in imports_of(path))}
    assert asking == {"source"}


def test_hub_and_client_never_meet() -> None:
    assert (
        offenders(sources("learner/hub"), ("learner.client", "learner.cli", "dprelease.report", "learner.export")) == []
    )
    assert offenders(sources("learner/client"), ("learner.hub",)) == []


def test_the_noise_module_alone_draws_secret_noise() -> None:
    door = ROOT / "dprelease" / "privacy" / "noise.py"
    samplers = tuple(f"dprelease.privacy.discrete_{law}" for law in ("gaussian", "laplace"))
    assert all(within(sampler, tuple(imports_of(door))) for sampler in samplers)
    others = (path for path in sources(*PACKAGES) if path != door and path.name != "discrete_laplace.py")
    assert offenders(others, samplers) == []
    assert offenders(sources(*PACKAGES), ("opendp",)) == []  # it keeps its state in the process
    laws = {"discrete_gaussian", "discrete_laplace"}
    drawing = [name_of(path) for path in sources(*PACKAGES) if path != door and laws & attributes(path)]
    drawers = ("moments", "noisy_rows", "ranges", "synthetic_control")
    assert drawing == [f"dprelease.mechanisms.{name}.privatize" for name in drawers]


def test_only_the_party_node_holds_the_secure_source() -> None:
    simulating = "coordinator.dry_run.dry_run"  # draws it over rows that it has made up, and has no others
    holders = {name_of(path) for path in sources(*PACKAGES) if "SecureNoise" in attributes(path)}
    assert {name.split(".")[0] for name in holders - {simulating}} <= {"party_node"}


def test_public_and_secret_randomness_share_no_code() -> None:
    public = ("privacy.public_stream", "mechanisms.noisy_rows.mixing")
    forbidden = tuple(f"dprelease.{module}" for module in public)
    assert offenders(iter([ROOT / "dprelease" / "privacy" / "noise.py"]), forbidden) == []
    for module in public:
        path = ROOT / "dprelease" / f"{module.replace('.', '/')}.py"
        assert offenders(iter([path]), ("dprelease.privacy.noise", "secrets", "opendp", "os")) == []


def test_secret_keystreams_are_another_type_than_public_ones() -> None:
    public, secret = ROOT / "dprelease" / "privacy" / "public_stream.py", ROOT / "dprelease" / "mpc" / "ring.py"
    forbidden = ("dprelease.privacy.public_stream", "dprelease.mechanisms", "dprelease.privacy.noise")
    assert offenders(iter([secret]), forbidden) == []
    assert offenders(iter([public]), ("dprelease.mechanisms", "dprelease.mpc")) == []
    holders = {name_of(path) for path in sources(*PACKAGES) if "SecretStream" in attributes(path)}
    assert holders == {f"dprelease.{name}" for name in ("intersection.session", "mpc.modulus", "mpc.proof.plan")}


def test_no_source_names_a_global_random_generator() -> None:
    jitter = {"dprelease.wire.retry"}  # spreads reconnects in time: no secret, and nothing released depends on it
    naming = {name_of(path) for path in sources(*PACKAGES) if names_global_random(parsed(path))}
    assert naming <= jitter


@pytest.mark.parametrize(
    ("source", "caught"),
    [
        ("import random", True),
        ("from random import gauss", True),
        ("def f():\n    import numpy.random", True),
        ("from numpy import random", True),
        ("from numpy.random import default_rng", True),
        ("import numpy as np\nnp.random.default_rng()", True),
        ("import numpy\nnumpy.random.seed(1)", True),
        ("import numpy as np\nnp.zeros(3)", False),
        ("from dprelease.randomised import random_rows", False),
    ],
)
def test_global_generators_are_recognised(source: str, caught: bool) -> None:
    assert names_global_random(ast.parse(source)) is caught


@pytest.mark.parametrize(
    ("source", "package", "found"),
    [
        ("import grpc.aio as g", False, {"grpc.aio"}),
        ("def f():\n    from rich import print", False, {"rich", "rich.print"}),
        ("from . import wire", False, {"dprelease", "dprelease.wire"}),
        ("from .wire import chunks", False, {"dprelease.wire", "dprelease.wire.chunks"}),
        ("from .ols import fit", True, {"dprelease.canonical.ols", "dprelease.canonical.ols.fit"}),
    ],
)
def test_imports_are_recognised(source: str, package: bool, found: set[str]) -> None:
    assert imports(ast.parse(source), "dprelease.canonical", package=package) == found


def test_the_public_names_are_sorted_and_importable() -> None:
    assert dprelease.__all__ == sorted(dprelease.__all__)
    for name in dprelease.__all__:
        assert getattr(dprelease, name) is not None


def test_every_module_can_be_imported_by_itself() -> None:
    for path in core():
        importlib.import_module(name_of(path))


@pytest.mark.parametrize("package", PACKAGES)
def test_no_source_file_is_long(package: str) -> None:
    lengths = {path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines()) for path in sources(package)}
    assert {path: lines for path, lines in lengths.items() if lines > LONGEST} == {}


def test_no_module_is_a_grab_bag() -> None:
    banned = {"utils", "util", "helpers", "helper", "common", "misc", "tools"}
    assert [name_of(path) for path in sources(*PACKAGES) if banned & set(name_of(path).split("."))] == []


def test_every_core_module_has_its_tests() -> None:
    # Values without behaviour; noise is in tests/statistical.
    elsewhere = {"__init__", "arrays", "errors", "version", "noise"}
    modules = {path.stem for path in (ROOT / "dprelease").glob("*.py")} - elsewhere
    tested = {path.stem.removeprefix("test_") for path in (ROOT / "tests" / "dprelease").glob("test_*.py")}
    assert modules <= tested
    for room in ("intersection", "moments", "mpc"):
        modules = {path.stem for path in (ROOT / "dprelease" / room).glob("*.py")} - elsewhere
        tested = {path.stem.removeprefix("test_") for path in (ROOT / "tests" / "dprelease" / room).glob("test_*.py")}
        assert modules <= tested
