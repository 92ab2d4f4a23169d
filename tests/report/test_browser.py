"""Reports in Chromium, on a phone and on a desktop, by day and by night."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from rnnlab.report.report import make_report
from tests.report.browser import look, needs_chromium
from tests.report.made_records import demo_record, unfinished, with_scores

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def page() -> str:
    return make_report(demo_record()).to_html()


def brightness(colour: str) -> float:
    return sum(map(float, re.findall(r"[\d.]+", colour)[:3])) / 3


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
def test_nothing_overflows_and_the_console_is_silent(page: str, tmp_path: Path, is_dark: bool) -> None:
    found = look(page, tmp_path, is_dark=is_dark)
    found.check()
    assert [frame["width"] for frame in found.frames] == [390, 1280]
    for frame in found.frames:
        assert frame["charts"] == 10
        ground, text = brightness(frame["background"]), brightness(frame["text"])
        assert (text - ground if is_dark else ground - text) > 150


def test_difficult_reports_are_as_tidy(tmp_path: Path) -> None:
    names = ["sh:gru", "section45-3-17", "grid-4-3:lstm-edges", "mongia-d", "hierarchical:ugrnn", "skip-21", "dots-2"]
    many = with_scores({name: [1e-7 * 10**place, 1e-6 * 10**place, 0.3] for place, name in enumerate(names)})
    page = make_report(many).to_html()
    assert "<h1>7 architectures on adding</h1>" in page
    look(page, tmp_path).check()
    look(make_report(unfinished(demo_record(trials=3, seeds=2))).to_html(), tmp_path).check()


def test_a_single_drawing_is_no_larger_than_one_of_several(tmp_path: Path) -> None:
    alone = demo_record(architectures=["td"], trials=40, seeds=3)
    page = make_report(alone).to_html()
    assert "What mattered for td" in page
    look(page, tmp_path).check()


def test_several_comparisons_are_as_tidy(tmp_path: Path) -> None:
    several = demo_record(architectures=["sh", "td"], parameters=[300, 1000], trials=2, seeds=2)
    look(make_report(several).to_html(), tmp_path).check()


def test_long_names_are_cut_where_they_would_not_fit(tmp_path: Path) -> None:
    record = demo_record(task={"name": "capacity", "num_inputs": 8}, architectures=["sh", "lstm"], trials=24, seeds=3)
    long = "task=capacity num_inputs=8 an architecture with a name that nobody would want to write parameters 1000"
    first = replace(record.arms[0], arm=replace(record.arms[0].arm, name=long))
    page = make_report(replace(record, arms=(first, record.arms[1]))).to_html()
    assert "task.samples_per_parameter" in page
    look(page, tmp_path).check()


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        ('<div style="width: 2000px">wide</div>', "too wide"),
        ("<script>console.error('broken')</script>", "broken"),
        ('<svg class="chart" viewBox="0 0 100 50"><text x="90" y="20">cut off</text></svg>', "cut"),
        (
            '<svg class="chart" viewBox="0 0 300 50"><text x="9" y="20">one</text><text x="12" y="20">two</text></svg>',
            "overlap",
        ),
        ('<svg class="chart" viewBox="0 0 4000 50"><text x="9" y="20">tiny</text></svg>', "too small"),
        ('<svg class="chart" viewBox="0 0 90 50"><text x="9" y="20">huge</text></svg>', "larger than any heading"),
    ],
    ids=["overflow", "error", "cut label", "overlapping labels", "tiny label", "huge label"],
)
def test_what_is_wrong_is_seen(page: str, tmp_path: Path, fault: str, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        look(page.replace("</main>", f"{fault}</main>"), tmp_path, widths=(390,)).check()
