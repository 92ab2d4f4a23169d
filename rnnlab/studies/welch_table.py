"""Welch's tests of all pairs side by side, in the form of Collins et al.'s table App.2 (C74)."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

from rnnlab.studies.statistics import Scores, Welch, welch

LEVEL = 0.05


@dataclass(frozen=True)
class WelchRow:
    """Two architectures.

    Args:
        first, second: their names; a negative t means that the second one's mean is larger.
        tests: one for each column; None where one of them has fewer than two scores there.
    """

    first: str
    second: str
    tests: tuple[Welch | None, ...]


@dataclass(frozen=True)
class WelchTable:
    """Tests of all pairs; prints as a table.

    Args:
        columns: what the columns are, such as depths.
        rows: one for each pair, in alphabetical order.
    """

    columns: tuple[str, ...]
    rows: tuple[WelchRow, ...]

    def to_json(self) -> dict[str, Any]:
        """All numbers."""
        return {"columns": list(self.columns), "rows": [asdict(row) for row in self.rows]}

    def __str__(self) -> str:
        names = [f"{row.first} vs {row.second}" for row in self.rows]
        width = max(map(len, names), default=0)
        lines = [" " * width + "".join(f"  {column:>28}" for column in self.columns)]
        lines += [" " * width + f"  {'t':>8}  {'df':>8}  {'p':>8}" * len(self.columns)]
        for name, row in zip(names, self.rows, strict=True):
            cells = "".join(f"  {t:>8}  {df:>8}  {p:>8}" for t, df, p in map(shown_test, row.tests))
            lines.append(f"{name:<{width}}{cells}".rstrip())
        return "\n".join(lines)


def welch_table(samples: Mapping[str, Mapping[str, Scores]]) -> WelchTable:
    """Test all pairs of architectures in every column.

    Args:
        samples: scores by column and architecture; None for a run that diverged, which is left out.

    >>> print(welch_table({"1 layer": {"GRU": [1.0, 2.0, 3.0], "RNN": [5.0, 8.0, None, 9.0]}}))
                                     1 layer
                       t        df         p
    GRU vs RNN        -4      2.88     .0303
    """
    names = sorted({name for column in samples.values() for name in column})
    rows = [
        WelchRow(
            first, second, tuple(welch(column.get(first, ()), column.get(second, ())) for column in samples.values())
        )
        for first, second in combinations(names, 2)
    ]
    known = tuple(row for row in rows if any(test is not None for test in row.tests))
    return WelchTable(tuple(samples), known)


def shown_test(test: Welch | None) -> tuple[str, str, str]:
    """t, degrees of freedom and p with three digits, as the paper prints them.

    >>> shown_test(Welch(-7.7421, 695.81, 3e-14)), shown_test(Welch(2.2311, 1652.2, 0.02638)), shown_test(None)
    (('-7.74', '696', '<.001'), ('2.23', '1650', '.0264'), ('-', '-', '-'))
    """
    if test is None:
        return ("-", "-", "-")
    freedom = f"{float(f'{test.degrees_of_freedom:.3g}'):g}"
    return (f"{test.t:.3g}", freedom, shown_p(test.p))


def shown_p(p: float) -> str:
    """A p value with three digits; very small ones as `<.001`.

    >>> shown_p(0.02638), shown_p(0.00498), shown_p(1e-9), shown_p(1.0)
    ('.0264', '.00498', '<.001', '1')
    """
    return "<.001" if p < 0.001 else f"{float(f'{p:.3g}'):g}".removeprefix("0")
