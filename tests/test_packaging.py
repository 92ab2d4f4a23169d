"""What is shipped beside the code: types, and how to cite it."""

import re
import tomllib
from pathlib import Path

from rnnlab.version import VERSION

ROOT = Path(__file__).parents[1]


def test_types_are_shipped() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert settings["tool"]["setuptools"]["package-data"]["rnnlab"] == ["py.typed"]
    assert (ROOT / "rnnlab" / "py.typed").read_text() == ""


def test_citation_names_the_version_and_license_of_the_package() -> None:
    citation = (ROOT / "CITATION.cff").read_text()
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert re.findall(r"^version: (.+)$", citation, re.MULTILINE) == [VERSION]
    assert re.findall(r"^license: (.+)$", citation, re.MULTILINE) == [settings["project"]["license"]]


def test_citation_refers_to_the_four_papers() -> None:
    """Those of the page on them, with their titles."""
    page = (ROOT / "docs" / "papers.md").read_text()
    intro = " ".join(page.split("## Theory")[0].split())
    titles = re.findall(r"^    title: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert sorted(titles) == sorted(re.findall(r": \*([^*]+)\*", intro))
    assert len(titles) == 4
