"""What a release says about itself agrees: version, citation, changelog, Python versions, templates."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import ldmaps

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
#: Of Keep a Changelog.
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_citation_names_this_version_and_licence():
    yaml = pytest.importorskip("yaml")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == ldmaps.__version__
    assert citation["license"] == PROJECT["license"]


def test_the_changelog_keeps_its_form():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert versions[0] == "[Unreleased]" or versions[0].startswith(f"[{ldmaps.__version__}] - ")
    for version in versions[1:]:
        assert re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", version), version
    assert set(re.findall(r"^### (.+)$", text, re.MULTILINE)) <= KINDS


def test_the_workflow_runs_every_python_that_is_promised():
    yaml = pytest.importorskip("yaml")
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))["jobs"]
    (everything,) = (
        step["with"]["python-version"]
        for step in jobs["all"]["steps"]
        if "python-version" in step.get("with", {})
    )
    tried = {everything, *jobs["pythons"]["strategy"]["matrix"]["python"]}
    promised = {line.rpartition(" :: ")[2] for line in PROJECT["classifiers"] if ":: Python :: 3." in line}
    assert promised <= tried
    assert PROJECT["requires-python"] == f">={min(promised, key=lambda version: int(version[2:]))}"


def test_the_workflow_calls_what_is_there():
    yaml = pytest.importorskip("yaml")
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))["jobs"]
    runs = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    called = {run.split()[1] for run in runs if run.startswith("make ")}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert called <= set(re.findall(r"^\.PHONY: ([a-z-]+)$", makefile, re.MULTILINE))
    assert {"test", "floors", "coverage", "docs", "docs-links"} <= called
    assert ".ci/run" in runs
    for script in re.findall(r"tools/\w+\.py", " ".join(runs)):
        assert (ROOT / script).exists()


@pytest.mark.parametrize("name", ["bug", "feature"])
def test_issue_forms_have_what_the_host_asks_of_them(name):
    yaml = pytest.importorskip("yaml")
    form = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml").read_text(encoding="utf-8"))
    assert form["name"]
    assert form["description"]
    kinds = [entry["type"] for entry in form["body"]]
    assert set(kinds) <= {"markdown", "textarea", "input", "dropdown", "checkboxes"}
    assert "textarea" in kinds
    ids = [entry["id"] for entry in form["body"] if entry["type"] != "markdown"]
    assert len(set(ids)) == len(ids)


def test_remedies_name_what_an_index_has():
    """ldmaps is on no package index, so ``pip install "ldmaps[plot]"`` would find nothing."""
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    named = [path for path in sources if "pip install" in path.read_text(encoding="utf-8")]
    assert named
    assert not [path for path in named if 'install "ldmaps[' in path.read_text(encoding="utf-8")]


def test_every_extra_is_in_the_table():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    table = (ROOT / "docs" / "start" / "install.md").read_text(encoding="utf-8")
    assert not [name for name in extras if f"`{name}`" not in table]


def test_the_readme_names_the_two_commands_and_ci_runs_the_tests_by_theirs():
    readme, ci = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", ".ci/run"))
    assert "\nmake demo " in readme
    assert "\nmake test " in readme
    assert "\nmake test\n" in ci
