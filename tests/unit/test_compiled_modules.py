"""Test modules are compiled once, before workers start."""

from pathlib import Path

import pytest

from tests.compiled_modules import FEW, compile_modules, divided


def modules(folder: Path, number: int) -> list[Path]:
    made = [folder / f"test_{index}.py" for index in range(number)]
    for each in made:
        each.write_text(f"def test() -> None:\n    assert 1 + 1 == {len(made)}\n")
    return made


def test_what_changed_is_compiled_as_pytest_compiles_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    made = modules(tmp_path, FEW)

    assert compile_modules([tmp_path], processes=2) == FEW
    kept = {each.name.partition(".")[0] for each in (tmp_path / "__pycache__").glob("*-pytest-*.pyc")}
    assert kept == {each.stem for each in made}
    assert compile_modules([tmp_path], processes=2) == 0


def test_few_changes_are_left_to_the_workers(tmp_path: Path) -> None:
    modules(tmp_path, FEW - 1)

    assert compile_modules([tmp_path]) == 0
    assert not (tmp_path / "__pycache__").exists()


@pytest.mark.parametrize(("sizes", "number", "shares"), [((5, 4, 3, 2), 2, {7}), ((1,), 4, {1}), ((3, 3, 3), 3, {3})])
def test_shares_have_about_as_many_bytes_each(
    tmp_path: Path, sizes: tuple[int, ...], number: int, shares: set[int]
) -> None:
    made = [tmp_path / str(index) for index in range(len(sizes))]
    for each, size in zip(made, sizes, strict=True):
        each.write_text("x" * size)

    found = divided(made, number)

    assert {sum(each.stat().st_size for each in share) for share in found} == shares
    assert sorted(each for share in found for each in share) == made
