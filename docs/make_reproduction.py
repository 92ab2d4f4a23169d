"""Makes docs/reproduction.md and results/reports/ from the records and the remarks in results/.

python docs/make_reproduction.py             the page and all reports
python docs/make_reproduction.py --page      the page alone
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from rnnlab import StudyRecord, load_record, make_report
from rnnlab.report.numbers import parts_of
from rnnlab.report.paper_claims import CheckedClaim, check_claims
from rnnlab.report.paper_tables import ours_and_theirs
from rnnlab.report.paper_values import Beside, beside
from rnnlab.studies.finding import find_spec, shipped_specs
from rnnlab.studies.paper import Paper, read_paper
from rnnlab.tuning.sittings import device_seconds

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reproduction.md"
RESULTS = ROOT / "results"
MOST_DRAWN = 6  # comparisons of a study whose drawings are all in its report; with more it would be megabytes

INTRODUCTION = """# The papers' experiments, repeated

These are the papers' experiments ([papers-experiments.md](papers-experiments.md)) at scale `gpu`, run in pieces on one
H200. The tables are computed from the records in [results/records](../results/records) by
`docs/make_reproduction.py`; the remarks under each experiment are ours. The number after ± is half of the 95 %
bootstrap interval of a mean over seeds. With few seeds, that interval is too narrow: for normally distributed scores,
it contains the true mean about 84 times in 100 with five seeds, and 72 times with three.

The specification of each experiment lists the paper's claims, in our words, and how each is checked. A comparison is
tested statistically if several seeds were trained (Welch's test) or settings were drawn at random (tests of ranks and
shares, paired if both sides have the same settings). Where no test is named, "holds" only compares the measured values:
they come from single runs, or there is no test for them. Each comparison is tested by itself. The verdicts in the
reports are stricter: they look for a winner among several networks, and correct for the number of pairs.

**Recollected** numbers of the papers, marked \\*, were written down from memory and not checked against the paper: do
not cite them as the paper's. Numbers marked † come from notes that quote the paper's table. All others are in the
paper's own text.
"""


@cache
def records() -> dict[str, StudyRecord]:
    """All records by the name of their specification, in the order of the specifications."""
    found = {path.name.removesuffix(".json.gz"): load_record(path) for path in (RESULTS / "records").glob("*.json.gz")}
    return {name: with_present_words(name, found[name]) for name in shipped_specs() if name in found}


def with_present_words(name: str, record: StudyRecord) -> StudyRecord:
    """A record with the title and the `[paper]` table of the specification now: a record keeps those of its day."""
    assert record.spec is not None
    document = find_spec(name, scale=record.spec.scale).document
    present = {key: document[key] for key in ("title", "paper")}
    return replace(record, spec=replace(record.spec, document={**record.spec.document, **present}))


def paper_of(record: StudyRecord) -> Paper:
    """What the paper says."""
    paper = read_paper(record.spec)
    assert paper is not None, f"{record.name} is of no paper"
    return paper


def reproduction() -> str:
    """The page."""
    found = records()
    lines = [INTRODUCTION, "## The experiments", "", *_overview(found), "", "## All claims", "", *_all_claims(found)]
    for name, record in found.items():
        lines += ["", *_experiment(name, record)]
    return "\n".join(lines) + "\n"


def _overview(found: dict[str, StudyRecord]) -> Iterator[str]:
    yield "| experiment | of | trials | minutes on the GPU | state |"
    yield "|---|---|---|---|---|"
    for name, record in found.items():
        minutes = _gpu_minutes(record)
        trials = sum(trial.has_ended for each in record.arms for trial in each.all_trials)
        state = "complete" if record.is_complete else "not complete"
        yield f"| [{name}](#{name}) | {paper_of(record).source} | {trials:,} | {minutes:.1f} | {state} |"
    missing = ", ".join(f"`{name}`" for name in shipped_specs() if name not in found and _is_of_a_paper(name))
    yield ""
    every = [sitting for record in found.values() for sitting in record.sittings]
    total = device_seconds(every) / 60
    shared = sum(map(_gpu_minutes, found.values())) - total
    yield f"{total:.0f} minutes in all" + (
        f"; {shared:.0f} of the minutes above are counted twice, because experiments ran side by side."
        if shared >= 0.5
        else "."
    )
    yield f"Not run yet: {missing}." if missing else ""
    yield ""
    yield (RESULTS / "notes" / "dropped.md").read_text().strip()


def _gpu_minutes(record: StudyRecord) -> float:
    return device_seconds(record.sittings) / 60


def _is_of_a_paper(name: str) -> bool:
    return read_paper(find_spec(name, scale=None)) is not None


def _all_claims(found: dict[str, StudyRecord]) -> Iterator[str]:
    yield "The column *measured* gives scores in their own unit, accuracies as shares, and diverged runs in percent."
    yield "If a claim is about several networks, it gives the smallest and the largest value. If a claim says that"
    yield "one size explains scores better than another, it gives the shares of the variance of the scores' logarithms"
    yield "that power laws in the two sizes explain."
    yield ""
    yield "| element | claim | measured | verdict | minutes | experiment |"
    yield "|---|---|---|---|---|---|"
    for name, record in found.items():
        minutes = _gpu_minutes(record)
        for each in check_claims(record, paper_of(record)):
            claim, place = each.claim, f"[{name}](#{name})"
            measured = each.measured or "–"
            yield f"| {claim.requirement} | {claim.text} | {measured} | {_outcome(each)} | {minutes:.1f} | {place} |"


def _outcome(each: CheckedClaim) -> str:
    return f"**{each.outcome}**" if each.claim.can_be_checked else "not checked here"


def _experiment(name: str, record: StudyRecord) -> Iterator[str]:
    paper = paper_of(record)
    assert record.spec is not None
    yield f"## {name}"
    yield ""
    yield f"{paper.source}: {record.spec.title}. [Report](../results/reports/{name}.html), "
    yield f"[record](../results/records/{name}.json.gz). {_circumstances(record)}"
    yield ""
    yield f"    rnnlab study run {name} --scale {record.spec.scale} --device cuda"
    if numbers := _numbers(beside(record, paper)):
        yield ""
        yield from numbers
    notes = RESULTS / "notes" / f"{name}.md"
    if notes.exists():
        yield ""
        yield notes.read_text().strip()


def _circumstances(record: StudyRecord) -> str:
    runs = [trial.run for each in record.arms for trial in each.all_trials if trial.has_ended]
    machines = sorted({f"{run['device']}, torch {run['torch']}, {run['precision']}" for run in runs})
    days = sorted({datetime.fromtimestamp(each.ended, UTC).date().isoformat() for each in record.sittings})
    # arms whose trials all failed have no setting to repeat
    seeds = min((sum(trial.has_ended for trial in each.repeats) for each in record.arms if each.repeats), default=0)
    settings = max((len(each.finalists) for each in record.arms), default=0)
    which = "best settings" if settings == 1 else f"the best of {settings} settings of each network,"
    is_drawn = all(each.arm.sampler == "random" for each in record.arms)
    once = "random settings, each run once" if is_drawn else "single runs: the best tuning trials by validation score"
    words = f"{which} over {seeds} seeds" if seeds else once
    return f"{'; '.join(machines)}; {', '.join(days)}; {words}."


def _numbers(found: Sequence[Beside]) -> list[str]:
    """Ours and the paper's, a row for each of the paper's rows."""
    rows: dict[str, list[Beside]] = {}
    for each in found:
        if each.arm is not None:
            rows.setdefault(
                each.number.row or ", ".join(str(value) for (value,) in each.number.where.values()), []
            ).append(each)
    if not rows:
        return []
    lines = ["| | ours / the paper's |", "|---|---|"]
    for row, cells in rows.items():
        texts = [f"{each.number.column or each.number.quantity}: {ours_and_theirs(each)}" for each in cells]
        lines.append(f"| {row} | {'; '.join(texts)} |")
    return lines


def main() -> None:
    """Write the page, and unless told otherwise the reports."""
    PAGE.write_text(reproduction())
    if sys.argv[1:] == ["--page"]:
        return
    folder = RESULTS / "reports"
    folder.mkdir(exist_ok=True)
    for name, record in records().items():
        make_report(record, brief=len(parts_of(record)) > MOST_DRAWN).save(folder / f"{name}.html")


if __name__ == "__main__":
    main()
