"""Blocks of code in a page of the documentation, and how its examples are run."""

import doctest
import re
from pathlib import Path


def blocks(page: Path, language: str) -> list[str]:
    """The blocks in a language, in order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def run_examples(page: Path) -> None:
    """Run the Python examples of a page from its beginning to its end; fail where one prints something else."""
    examples = doctest.DocTestParser().get_doctest("\n".join(blocks(page, "pycon")), {}, page.name, str(page), 0)
    report: list[str] = []
    doctest.DocTestRunner(verbose=False).run(examples, out=report.append)
    assert examples.examples
    assert not report, "".join(report)
