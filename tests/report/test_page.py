"""The report as HTML, Markdown and JSON: what stands in it, for people and for programs."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from rnnlab import RnnlabError, named_graph, save_graph
from rnnlab.report.chart import Legend, Style
from rnnlab.report.figures import draw_curves, draw_history, draw_importances, draw_scores, history_axis
from rnnlab.report.protocol import protocol, repeat_command
from rnnlab.report.report import Report, make_report, write_report
from rnnlab.report.results import pair_table, result_table
from rnnlab.report.words import architecture_words, verdicts_in_short
from rnnlab.studies.finding import find_spec
from rnnlab.studies.importance import Importance
from rnnlab.studies.records import StudyRecord
from rnnlab.studies.specification import StudySpec
from tests.report.made_records import demo_record, record, spec, unfinished, with_scores


@pytest.fixture(scope="module")
def report() -> Report:
    return make_report(demo_record())


@pytest.fixture(scope="module")
def page(report: Report) -> str:
    return report.to_html()


VOID = {"meta", "link"}


class Outline(HTMLParser):
    """Headings in order, tags that were not closed, and addresses that a browser would fetch."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.headings: list[str] = []
        self.addresses: list[str] = []
        self.tags: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes) -> None:
        self.tags.append(tag)
        self.addresses += [value for name, value in attributes if name in ("src", "href", "xlink:href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("h1", "h2"):
            self.headings.append(data)


def test_page_is_whole_and_needs_nothing_else(page: str) -> None:
    outline = Outline(page)
    assert outline.open == []
    assert outline.addresses == ["data:,"]
    assert "script" not in outline.tags
    assert "@import" not in page
    assert "url(" not in page
    assert set(re.findall(r"https?://[^\s\"'<]+", page)) <= {"http://www.w3.org/2000/svg"}


def test_verdict_comes_first_and_everything_is_there(page: str, report: Report) -> None:
    outline = Outline(page)
    assert outline.headings == [
        *(
            "sh, st, td and lstm on adding",
            "Results",
            "The architectures",
            "Are the differences significant?",
            "Tuning",
        ),
        *("Protocol", "How to repeat this study", "Glossary"),
    ]
    assert page.index(report.comparison.verdict.sentence) < page.index("<h2>")
    for words in ("Scores of all runs", "Learning curves", "The course of tuning", "Which hyperparameters mattered"):
        assert f"<h3>{words}</h3>" in page
    assert "prefers-color-scheme: dark" in page
    assert 'name="viewport"' in page
    assert repeat_command(report.record) in page
    assert "Gaussian process" in page
    assert "What the networks have to do: add the two marked numbers of a long sequence." in page


def test_every_drawing_says_in_words_what_it_shows(page: str) -> None:
    drawings = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(drawings) == 4 + 2 + 4 + 4  # architectures, scores and curves, tuning, importance
    for drawing in drawings:
        tree = ElementTree.fromstring(re.sub(r'xmlns="[^"]*"', "", drawing))
        assert tree.attrib["role"] == "img"
        assert tree.find("title").text
        assert len(tree.find("desc").text) > 20
    assert page.count("<figcaption>") == page.count("<figure")
    assert page.count("<summary>The numbers</summary>") == 4


def test_numbers_of_the_results_are_those_of_the_comparison(page: str, report: Report) -> None:
    for each in report.comparison.contenders:
        row = re.search(rf'<tr[^>]*><th scope="row">{each.name}</th>(.*?)</tr>', page).group(1)
        cells = re.findall(r"<td[^>]*>(.*?)</td>", row)
        assert cells[0] == str(each.recurrent_depth)
        assert cells[3] == f"{each.num_parameters:,}"
        assert float(cells[4]) == pytest.approx(each.summary.mean, rel=6e-3)
        assert cells[6] == ("9 of 10" if each.name == "sh" else "10")


def test_names_with_signs_of_html_are_harmless() -> None:
    record = with_scores({"sh": [0.1, 0.2, 0.3], "td": [0.2, 0.3, 0.1]})
    first = record.arms[0]
    bad = replace(first, arm=replace(first.arm, name="<b>&"))
    page = make_report(replace(record, arms=(bad, record.arms[1]))).to_html()
    assert "<b>" not in page
    assert "&lt;b&gt;&amp;" in page
    assert Outline(page).open == []


@pytest.mark.parametrize(("task", "better"), [("adding", "td"), ("capacity", "sh")])
def test_conclusions_name_the_better_one(task: str, better: str) -> None:
    """Of an error the smaller one, of bits the larger."""
    scores = {"sh": [0.30, 0.31, 0.32], "td": [0.10, 0.11, 0.12], "st": [0.295, 0.30, 0.33]}
    table = pair_table(make_report(with_scores(scores, task=task)).comparison)
    assert [row[-1] for row in table.rows] == [
        *(f"{better} is better", "no significant difference", "td is better" if better == "td" else "st is better"),
    ]
    assert table.rows[0][1] == "+0.2"


def test_markdown_has_the_same_tables(report: Report) -> None:
    text = report.to_markdown()
    assert text.startswith("# sh, st, td and lstm on adding\n\nStudy demo, made with rnnlab. Task: adding(")
    assert text.index("What the networks have to do: add the two marked numbers of a long sequence.\n\n**") < 300
    assert f"**{report.comparison.verdict.sentence}**" in text
    rows = [line for line in text.splitlines() if line.startswith("| td |")]
    assert rows
    widths = [line.count("|") for line in text.splitlines() if line.startswith("| architecture") or line in rows]
    assert len(set(widths)) == 1
    assert "## Protocol" in text
    assert repeat_command(report.record) in text


def test_json_has_all_numbers(report: Report, tmp_path: Path) -> None:
    report.save(tmp_path / "report.json")
    values = json.loads((tmp_path / "report.json").read_text())
    (part,) = values["parts"]
    assert part["comparison"] == json.loads(json.dumps(report.comparison.to_json()))
    assert values["command"].startswith("rnnlab compare sh st td lstm --task adding --length 20")
    assert values["specification"]["trials"] == 30
    assert "Statistics" in part["protocol"]


def test_report_of_a_record_file_is_that_of_the_record(report: Report, tmp_path: Path) -> None:
    report.record.save(tmp_path / "record.json.gz")
    written = write_report(tmp_path / "record.json.gz", tmp_path / "report.html")
    assert written.path == tmp_path / "report.html"
    assert written.comparison == report.comparison
    assert (tmp_path / "report.html").read_text() == make_report(written.record).to_html()


def test_report_in_a_folder_is_named_as_the_study(report: Report, tmp_path: Path) -> None:
    report.record.save(tmp_path / "record.json")
    assert write_report(tmp_path / "record.json", tmp_path).path == tmp_path / "demo.html"


def test_printed_report_has_table_verdict_and_path(report: Report, tmp_path: Path) -> None:
    lines = str(report.save(tmp_path / "x.html")).splitlines()
    assert lines[0] == "sh, st, td and lstm on adding(num_evaluation=100, length=20), 1,000 parameters"
    assert lines[1] == "task: add the two marked numbers of a long sequence"
    assert lines[2:6] == [
        *("  sh    one recurrent layer, tanh cells", "  st    two stacked layers, tanh cells"),
        *("  td    two layers and a top-down edge of delay 1, tanh cells", "  lstm  one recurrent layer, lstm cells"),
    ]
    assert lines[7].split()[:5] == ["architecture", "d_r", "d_f", "s", "parameters"]
    assert lines[8].split()[0] == "td"
    assert lines[12].startswith("d_r: recurrent depth; d_f: feedforward depth")
    assert lines[13].startswith("mse: mean over seeds on test data; best trial: in tuning, on validation data")
    assert report.comparison.verdict.sentence in lines
    assert lines[-1] == f"report: {tmp_path / 'x.html'}"


@pytest.mark.parametrize("better", ["lower", "higher"])
def test_unfinished_studies_have_reports_too(better: str) -> None:
    task = "copying" if better == "lower" else {"name": "capacity", "num_inputs": 8}
    record = unfinished(demo_record(task=task, trials=3, seeds=2, architectures=["sh", "td"]))
    page = make_report(record).to_html()
    assert "not complete yet" in page
    assert "no setting was trained again over seeds" in page
    assert Outline(page).open == []
    assert str(make_report(record)).startswith("study demo")


def test_study_where_everything_diverged_has_a_report() -> None:
    record = with_scores({"sh": [None, None], "td": [None, None]})
    page = make_report(record).to_html()
    assert "No verdict" in page
    assert Outline(page).open == []
    untested = make_report(record)
    assert "Are the differences significant?" not in page + untested.to_markdown()
    nothing = replace(record, arms=tuple(replace(each, trials=(), finalists=()) for each in record.arms))
    assert "No verdict" in make_report(nothing).to_html()


def diverging(*names: str) -> Report:
    """A report of sh and td on three trials each, of which those of some names all diverged; of no seeds."""

    def value(name: str, number: int, _: object) -> float | None:
        return None if name in names else 0.1 + 0.01 * number

    return make_report(record(spec(architectures=["sh", "td"], trials=3, seeds=2), value, value))


def test_trials_that_all_diverged_are_told_instead_of_drawn() -> None:
    page, text = diverging("sh", "td").to_html(), diverging("sh", "td").to_markdown()
    assert "Not shown: all 6 trials diverged." in page
    assert 'class="chart"' not in page
    for words in (page, text):
        assert "There is none: nothing was tuned, or no trial has a score." in words
        assert "No verdict: no architecture has two or more runs that did not diverge." in words
        assert "All runs of sh and td diverged, so they cannot be judged." in words


def test_panel_of_an_architecture_that_always_diverged_says_so() -> None:
    page = diverging("sh").to_html()
    assert page.count("all 3 trials diverged") == 1
    assert "There is none: nothing was tuned" not in page
    panel = page.partition("Tuning of sh")[2].partition("</svg>")[0]
    assert "all 3 trials diverged" in panel
    assert "3 trials of sh, none has a score, 3 diverged." in page


def test_course_of_tuning_shows_chance(report: Report) -> None:
    (part,) = report.parts
    score = part.comparison.score
    drawing = draw_history(part.histories[0], history_axis(part.histories, score), Style(0), score)
    assert ">chance<" in drawing


def test_architecture_alone_and_several_comparisons_have_reports() -> None:
    alone = make_report(with_scores({"td": [0.1, 0.12, 0.11]}))
    assert "Nothing to compare td with" in alone.to_html()
    assert "Are the differences significant?" not in alone.to_html()
    several = make_report(demo_record(architectures=["sh", "td"], parameters=[300, 1000], trials=2, seeds=2))
    page = several.to_html()
    assert Outline(page).headings == [
        *("demo", "sh and td on adding(num_evaluation=100, length=20), 300 parameters"),
        *(
            "sh and td on adding(num_evaluation=100, length=20), 1,000 parameters",
            "How to repeat this study",
            "Glossary",
        ),
    ]
    assert page.count("<h3>Results</h3>") == several.to_markdown().count("### Results") == 2
    with pytest.raises(RnnlabError, match="contains 2 comparisons"):
        _ = several.comparison


def test_brief_report_has_the_tables_of_all_comparisons_and_drawings_of_none() -> None:
    several = make_report(demo_record(architectures=["sh", "td"], parameters=[300, 1000], trials=2, seeds=2))
    whole, brief = several.to_html(), replace(several, is_brief=True).to_html()
    assert Outline(brief).headings == Outline(whole).headings
    assert brief.count("<table") < whole.count("<table")  # those of numbers go with their drawings
    for words in ("<h3>Results</h3>", "<h3>Protocol</h3>", "The best setting of each architecture"):
        assert brief.count(words) == whole.count(words) == 2
    assert "<svg" in whole
    assert "<svg" not in brief


def test_several_comparisons_begin_with_all_verdicts() -> None:
    """Those of 300 parameters have a winner, those of 1000 have none."""
    made = spec(architectures=["sh", "td"], parameters=[300, 1000], trials=2, seeds=5)

    def score(name: str, number: int, _: object) -> float:
        return 0.02 * (1 + 0.1 * number) * (4 if name == "sh parameters 300" else 1)

    several = make_report(record(made, score, score))
    short = "td is best in 1 of 2 comparisons; the other has no winner."
    assert several.parts[0].comparison.verdict.winner == "td"
    page, text = several.to_html(), several.to_markdown()
    assert page.index(short) < page.index("<h2")
    for number, part in enumerate(several.parts, start=1):
        sentence = part.comparison.verdict.sentence
        assert page.index(f'href="#comparison-{number}"') < page.index(sentence) < page.index("<h2")
        assert f'<h2 id="comparison-{number}">' in page
        assert page.count(sentence) == text.count(sentence) == 2
    assert text.index(short) < text.index("## ")
    assert str(several).endswith(short)


def verdicts(*winners: str | None) -> str:
    """In short, of comparisons with these winners."""
    (part,) = make_report(with_scores({"sh": [0.1, 0.2, 0.3], "td": [0.2, 0.3, 0.1]})).parts
    verdict = part.comparison.verdict
    return verdicts_in_short(
        [replace(part, comparison=replace(part.comparison, verdict=replace(verdict, winner=name))) for name in winners]
    )


def test_verdicts_are_counted() -> None:
    assert verdicts("td", "sh", "td") == "td is best in 2 of 3 comparisons, sh in 1."
    assert verdicts("td", None, None) == "td is best in 1 of 3 comparisons; the other 2 have no winner."
    assert verdicts(None, None) == "None of the 2 comparisons has a winner."
    (chosen,) = make_report(demo_record(seeds=None, sampler="gp")).parts
    assert verdicts_in_short([chosen, chosen]).startswith("No verdict without runs over several seeds")
    (alone,) = make_report(with_scores({"td": [0.1, 0.12, 0.11]})).parts
    assert (
        verdicts_in_short([alone, alone])
        == "Nothing is compared here: no two architectures have the same task and size."
    )


def test_command_that_repeats_a_study(report: Report) -> None:
    assert repeat_command(report.record) == (
        "rnnlab compare sh st td lstm --task adding --length 20 --num-evaluation 100 --parameters 1000 --trials 30 "
        "--seeds 10 -p num_steps=2000 -p evaluate_every=100 -p batch_size=20 --population 4"
    )
    first = report.record.arms[0]
    on_gpu = replace(first, trials=tuple(replace(each, run={"device": "NVIDIA H200"}) for each in first.trials))
    assert repeat_command(replace(report.record, arms=(on_gpu,))).endswith(" --population 4 --device cuda")
    task = {"name": "capacity", "seed": 3, "input_once": True, "num_samples": 5}
    seeded = demo_record(task=task, trials=2, seeds=2, architectures=["sh", "td"])
    assert "--task-seed 3 --input-once true --num-samples 5 --parameters" in repeat_command(seeded)
    shipped = find_spec("example", scale="smoke")
    example = record(shipped, lambda *_: 0.1, lambda *_: 0.1)
    assert repeat_command(example) == "rnnlab study run example --scale smoke --population 4"
    old = StudySpec.from_json(shipped.to_json() | {"title": "in the words of its day"})
    assert repeat_command(record(old, lambda *_: 0.1, lambda *_: 0.1)) == repeat_command(example)
    changed = StudySpec.from_json(shipped.to_json() | {"seed": 3})
    own = record(changed, lambda *_: 0.1, lambda *_: 0.1)
    assert repeat_command(own) == "rnnlab study run example.json  # a file with the specification below"
    several = demo_record(architectures=["sh", "td"], parameters=[300, 1000], trials=2, seeds=2)
    assert repeat_command(several) == "rnnlab study run demo.json  # a file with the specification below"
    assert repeat_command(replace(several, spec=None)) == "rnnlab study resume demo"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("report.pdf", r"a report is written as \.html, \.md, \.json, got 'report\.pdf'"),
        ("missing/report.html", "there is no folder missing"),
    ],
)
def test_reports_that_cannot_be_written_say_so(path: str, message: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    demo_record(trials=2, seeds=2).save("record.json")
    with pytest.raises(RnnlabError, match=message):
        write_report("record.json", path)


def texts(drawing: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", drawing)


def test_drawings_show_the_numbers_they_are_given(report: Report) -> None:
    (part,) = report.parts
    styles = {each.name: Style(number) for number, each in enumerate(part.comparison.contenders)}
    curves = draw_curves(part.bands, styles, part.comparison.score)
    assert {"sh", "st", "td", "lstm", "chance", "training steps", "mean squared error on validation data"} <= set(
        texts(curves)
    )
    scores = draw_scores(part.comparison, styles)
    assert len(re.findall(r'class="mark faint', scores)) == 39  # one run of sh diverged
    for run in part.comparison.contenders[2].scores:
        assert f"<title>td: {run:.6g}</title>" in scores
    axis = history_axis(part.histories, part.comparison.score)
    history = draw_history(part.histories[0], axis, styles["sh"], part.comparison.score)
    assert len(re.findall('class="diverged"', history)) == part.histories[0].num_infeasible > 0
    bars = draw_importances("sh", [Importance("learning_rate", 0.75), Importance("l2", 0.25)], styles["sh"])
    widths = [float(width) for width in re.findall(r'<rect[^>]*width="([\d.]+)"', bars)]
    assert widths[0] == pytest.approx(3 * widths[1], abs=0.02)
    assert {"learning_rate", "75%", "25%"} <= set(texts(bars))


@pytest.mark.parametrize(("chance", "words"), [(1e9, "chance: 1e+09 →"), (-1e9, "← chance: -1e+09")])
def test_chance_far_away_does_not_press_scores_into_a_line(report: Report, chance: float, words: str) -> None:
    (part,) = report.parts
    styles = {each.name: Style(number) for number, each in enumerate(part.comparison.contenders)}
    near = draw_scores(part.comparison, styles)
    far = draw_scores(replace(part.comparison, score=replace(part.comparison.score, chance=chance)), styles)
    assert ("chance" in texts(near), 'class="reference"' in near) == (True, True)
    assert (words in texts(far), 'class="reference"' in far) == (True, False)


@pytest.mark.parametrize(("chance", "words"), [(1e9, "chance: 1e+09 ↑"), (-1e9, "chance: -1e+09 ↓")])
def test_chance_far_away_does_not_press_curves_into_a_line(report: Report, chance: float, words: str) -> None:
    (part,) = report.parts
    score, styles = part.comparison.score, {each.name: Style(n) for n, each in enumerate(part.comparison.contenders)}
    far = replace(score, chance=chance)
    drawings = [draw_curves(part.bands, styles, each) for each in (score, far)]
    assert [words in texts(drawing) for drawing in drawings] == [False, True]
    assert ['class="reference"' in drawing for drawing in drawings] == [True, False]
    shown_axis = history_axis(part.histories, far)
    assert -1.0 < shown_axis.low <= shown_axis.high < 10.0


def test_close_means_are_told_apart() -> None:
    """A score that is known to five digits is shown so, in the verdict and in the table."""
    close = with_scores({"sh": [0.019139, 0.019141, 0.019140], "td": [0.019070, 0.019072, 0.019074]})
    (part,) = make_report(close).parts
    assert "0.019072 on average" in part.comparison.verdict.sentence
    assert "the next best (0.01914)" in part.comparison.verdict.sentence
    table = result_table(part.comparison)
    assert [row[5] for row in table.rows] == ["0.019072", "0.01914"]


def test_better_curves_end_lower_where_lower_is_better(report: Report) -> None:
    (part,) = report.parts
    styles = {each.name: Style(number) for number, each in enumerate(part.comparison.contenders)}
    drawing = draw_curves(part.bands, styles, part.comparison.score)
    ends = {}
    for path, ink in re.findall(r'<path d="M([^"]*)" class="line (c\d)', drawing):
        ends[ink] = float(path.split("L")[-1].split(",")[1])
    assert ends["c2"] > ends["c1"] > ends["c0"]  # y grows downwards: td, st, sh


def test_architectures_look_different_without_colours() -> None:
    styles = [Style(number) for number in range(6)]
    legend = Legend([(f"network {style.number}", style) for style in styles])
    marks = re.findall(r'<(?:circle|path) (?!d="M[\d.]+,[\d.]+L[\d.]+,[\d.]+" class="line)', "".join(legend.parts()))
    assert len(marks) == 6
    shapes = {re.sub(r"[\d.]+", "", part) for part in legend.parts() if 'class="mark' in part}
    assert len(shapes) >= 4
    assert legend.height > Legend([("a", styles[0])]).height  # long legends have several rows


def test_record_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "record.json").write_text("{}")
    with pytest.raises(RnnlabError, match="holds no record of a study"):
        write_report(tmp_path / "record.json", tmp_path)
    assert isinstance(demo_record(trials=1, seeds=None), StudyRecord)


def test_architectures_are_told_by_their_file_and_cells(tmp_path: Path) -> None:
    mine = tmp_path / "mine.json"
    save_graph(named_graph("td"), mine)
    arms = demo_record(architectures=["skip-3", str(mine), f"{mine}:gru"]).arms
    assert [architecture_words(arm) for arm in arms] == [
        "one layer and a skip of 3 steps, tanh cells",
        "the graph in mine.json, tanh cells",
        "the graph in mine.json, gru cells",
    ]


def test_sizes_are_told_as_they_are() -> None:
    """The nearest to a number of parameters may be above it."""
    sizes = [
        dict(protocol(make_report(demo_record(architectures=["sh", "td"], fit=fit)).parts[0]))["Sizes"]
        for fit in ("under", "nearest")
    ]
    assert [each.partition(" 1,000 ")[0] for each in sizes] == ["Each network has at most", "Each network has about"]


def test_numbers_of_trials_are_told_once_or_by_name() -> None:
    found = demo_record()
    assert dict(protocol(make_report(found).parts[0]))["Tuning"].startswith("30 trials for each architecture, with ")
    fewer = replace(found, arms=(replace(found.arms[0], trials=found.arms[0].trials[:7]), *found.arms[1:]))
    told = dict(protocol(make_report(fewer).parts[0]))["Tuning"]
    assert told.startswith("sh 7, st 30, td 30, lstm 30 trials, with ")
