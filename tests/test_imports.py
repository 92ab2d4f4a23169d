"""The rooms of the house: a package imports only from packages to its left, and the theory starts fast."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import rnnlab
from rnnlab.version import VERSION

ROOT = Path(__file__).parents[1]
ROOMS = (
    *("version", "errors", "hints", "integers", "json_values", "triton_support"),
    *("graph", "architecture", "engine", "tasks", "training", "tuning", "studies", "report"),
    *("comparing", "bench", "commands", "cli", "__main__"),
)
SOURCES = sorted(path for path in (ROOT / "rnnlab").rglob("*.py") if path != ROOT / "rnnlab" / "__init__.py")


def imported(source: str) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide which room they reach into"
            names.add(node.module or "")
    return names


def breaches(room: str, source: str) -> set[str]:
    """What `source` imports that a file of `room` must not."""
    rooms_to_the_right = set(ROOMS[ROOMS.index(room) + 1 :])
    names = imported(source)
    found = {name for name in names if name.startswith("rnnlab.") and name.split(".")[1] in rooms_to_the_right}
    if ROOMS.index(room) < ROOMS.index("engine") or room in ("__main__", "cli", "commands"):
        found |= {name for name in names if name.split(".")[0] == "torch"}
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_package_imports_only_from_its_left(path: Path) -> None:
    room = path.relative_to(ROOT / "rnnlab").parts[0].removesuffix(".py")
    assert not breaches(room, path.read_text())


def test_breaches_are_seen() -> None:
    source = "import torch\nfrom rnnlab.engine.plan import Plan\nfrom rnnlab.graph.cyclic import CyclicGraph\n"
    assert breaches("graph", source) == {"torch", "rnnlab.engine.plan"}
    assert breaches("engine", source) == set()


def test_all_imported_packages_are_declared() -> None:
    """Not just brought along by another; all but Triton, which comes with torch where there are GPUs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    declared = [*project["dependencies"], *extras["figures"], *extras["bench"], *extras["cluster"]]
    names = {re.match(r"[\w-]+", line)[0] for line in declared}  # pyright: ignore[reportOptionalSubscript]
    found = {name.split(".")[0] for path in SOURCES for name in imported(path.read_text())}
    assert found - set(sys.stdlib_module_names) - {"rnnlab", "triton"} <= names


def test_slow_packages_are_not_loaded_at_the_start() -> None:
    code = "import sys, rnnlab.cli; print(*sorted({'torch', 'scipy', 'networkx', 'matplotlib'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == ""


def printed(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_names_loaded_on_demand_are_listed_and_loaded_once() -> None:
    assert set(rnnlab.__all__) | {"__version__"} <= set(dir(rnnlab))
    code = "import sys, rnnlab; print('train' in dir(rnnlab), 'train' in vars(rnnlab), 'torch' in sys.modules)"
    assert printed(code) == "True False False"
    assert printed("import rnnlab; rnnlab.train; print('train' in vars(rnnlab))") == "True"


def test_version_is_the_one_of_the_package() -> None:
    assert rnnlab.__version__ == VERSION


def test_measuring_does_without_torch() -> None:
    code = "import sys, rnnlab.cli; rnnlab.cli.main(['measure', 'td']); print('torch' in sys.modules)"
    assert printed(code).splitlines()[-1] == "False"
