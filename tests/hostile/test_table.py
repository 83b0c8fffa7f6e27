"""docs/faults.md is what the tests try, and names every test module here."""

from pathlib import Path

from tests.hostile import servers, table
from tests.hostile.faults import Kind
from tests.hostile.servers.attacks import cases_of


def test_the_page_is_up_to_date() -> None:
    assert table.PAGE.read_text(encoding="utf-8") == table.page(), "run: python -m tests.hostile.table"


def test_every_module_with_faults_is_in_the_table() -> None:
    listed = {id(fault) for _, faults in table.SECTIONS for fault in faults}
    modules = [path for path in Path(__file__).parent.glob("*/test_*.py") if "FAULTS" in path.read_text()]
    assert len(modules) == 14
    for path in modules:
        name = ".".join(path.relative_to(Path(__file__).parents[2]).with_suffix("").parts)
        module = __import__(name, fromlist=["FAULTS"])
        assert {id(fault) for fault in module.FAULTS} <= listed, name


def test_every_error_of_a_fault_is_named_exactly_where_there_is_one() -> None:
    for _, faults in table.SECTIONS:
        for fault in faults:
            assert (fault.error is None) <= (fault.kind in {Kind.HARMLESS, Kind.HELD}), fault.what


def test_every_attack_on_a_server_is_in_the_table() -> None:
    paths = (Path(path) for path in servers.__path__)
    modules = {path.stem for folder in paths for path in folder.glob("test_*.py")}
    assert {module.__name__.rpartition(".")[2] for module in table.SERVERS} == modules
    for module in table.SERVERS:
        assert all("attack" in test.__dict__ for test in cases_of(module)), module.__name__
