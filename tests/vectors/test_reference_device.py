"""The reference device passes every vector, and every planted fault is caught by one."""

import pytest

from tests.vectors import reference_device
from tests.vectors.faults import FAULTS, NOT_CAUGHT, Fault, caught, source
from tests.vectors.play import FILES, VECTORS, failures


@pytest.mark.parametrize("name", FILES)
def test_the_reference_device_does_what_the_vectors_say(name: str) -> None:
    assert list(failures(reference_device, only=[name])) == []


def test_every_vector_file_is_played() -> None:
    assert {path.name for path in VECTORS.glob("*.json")} == set(FILES)


def test_the_reference_device_imports_nothing_of_hubbub() -> None:
    imports = [line for line in source().splitlines() if line.lstrip().startswith(("import ", "from "))]
    assert len(imports) > 10
    assert not [line for line in imports if "hubbub" in line or "tests" in line]


def test_each_fault_changes_one_place() -> None:
    assert [fault.name for fault in FAULTS if source().count(fault.old) != 1 or fault.old == fault.new] == []
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert {fault.name for fault in FAULTS} >= NOT_CAUGHT.keys()


@pytest.mark.full
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_vector_catches_the_fault(fault: Fault) -> None:
    """If nothing catches a fault, add a vector, or say in `NOT_CAUGHT` why none can."""
    found = caught(fault)
    print(f"{fault.name}: {found}")  # noqa: T201
    assert (found is None) == (fault.name in NOT_CAUGHT)
