from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

import unfazed
from unfazed import Policy, PolicyError, UnfazedError


def test_a_mistake_has_its_place_its_code_and_what_to_do() -> None:
    with pytest.raises(PolicyError) as caught:
        Policy.from_yaml("version: 1\ntools:\n  search: {retri: {}}\n", "team.yaml")
    (found,) = caught.value.diagnostics
    assert (found.file, found.line, found.column, found.code) == ("team.yaml", 3, 12, "P0101")
    assert str(found) == "team.yaml:3:12: error[P0101]: unknown field `retri`"
    assert isinstance(caught.value, UnfazedError)
    assert isinstance(caught.value, ValueError)


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(PolicyError) as caught:
        Policy.from_yaml("version: 1\nretri: {}\nretry: {max_attempts: none}\n")
    assert [found.line for found in caught.value.diagnostics] == [2, 3]


def test_files_are_loaded_with_those_they_extend(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text("version: 1\nretry: {max_attempts: 7}\n")
    team = tmp_path / "team"
    team.mkdir()
    (team / "policy.yaml").write_text("version: 1\nextends: ../base.yaml\n")
    policy = Policy.load(team / "policy.yaml")
    assert f"{tmp_path / 'base.yaml'}:2:23" in policy.explain(tool="search")


def test_a_file_that_is_not_there_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"cannot read .*none\.yaml"):
        Policy.load(tmp_path / "none.yaml")
    (tmp_path / "policy.yaml").write_text("version: 1\nextends: none.yaml\n")
    with pytest.raises(PolicyError, match=r"none\.yaml"):
        Policy.load(tmp_path / "policy.yaml")


def test_a_profile_is_chosen() -> None:
    text = "version: 1\nprofiles: {ci: {retry: {max_attempts: 2}}}\n"
    assert Policy.from_yaml(text).digest != Policy.from_yaml(text, profile="ci").digest
    with pytest.raises(PolicyError, match="night"):
        Policy.from_yaml(text, profile="night")


def test_likely_mistakes_are_listed() -> None:
    policy = Policy.from_yaml("version: 1\nretry: {max_attempts: 2}\ntools: {search: {retry: {max_attempts: 2}}}\n")
    (found,) = policy.check()
    assert (found.code, found.severity, found.line) == ("W0205", "warning", 3)
    assert found.help


def test_a_value_is_explained_by_the_place_it_comes_from() -> None:
    policy = Policy.from_yaml("version: 1\nmodels: {main: {retry: {max_attempts: 9}}}\n")
    assert "policy.yaml:2:39" in policy.explain(model="main")
    assert "policy.yaml" not in policy.explain(model="spare")
    assert "max_turns" in policy.explain()
    with pytest.raises(ValueError, match="not both"):
        policy.explain(tool="search", model="main")


def test_the_name_that_was_likely_meant_is_said() -> None:
    with pytest.raises(PolicyError) as caught:
        Policy.from_yaml("version: 1\ntools: {s: {retry: {max_attempt: 3}}}\n")
    assert caught.value.diagnostics[0].help == ["did you mean `max_attempts`?"]


def test_what_help_says_is_what_the_stubs_say() -> None:
    stubs = ast.parse((Path(unfazed.__file__).parent / "_unfazed.pyi").read_text())
    compared = 0
    for stub in (node for node in stubs.body if isinstance(node, ast.ClassDef)):
        kind = getattr(unfazed, stub.name, None)
        members = [node for node in stub.body if isinstance(node, ast.FunctionDef)]
        documented: list[ast.ClassDef | ast.FunctionDef] = [stub, *members]
        for node in documented:
            if kind is None or node.name == "__new__":
                continue
            found = inspect.getdoc(kind if node is stub else getattr(kind, node.name))
            said = (ast.get_docstring(node) or "").partition("\n\n")[0]
            assert found is not None and found.split() == said.split(), f"{stub.name}.{node.name}"
            compared += 1
    assert compared > 20


def test_a_text_extends_no_file() -> None:
    with pytest.raises(PolicyError, match=r"write the policy to a file and load it with `Policy\.load`"):
        Policy.from_yaml("version: 1\nextends: team.yaml\n")
