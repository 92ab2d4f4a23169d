"""A page in a real browser, at several widths: what overflows, which labels are cut, what the console says."""

import json
import re
import shutil
import subprocess
from html import escape
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: install it to look at reports in a browser")

# frames have widths of their own, and media queries go by these
_LOOK = """
function look(frame) {
  const page = frame.contentDocument, root = page.documentElement;
  page.querySelectorAll("details").forEach(each => { each.open = true; });
  const cut = [], overlapping = [], small = [], large = [];
  for (const chart of page.querySelectorAll("svg.chart")) {
    const box = chart.getBoundingClientRect();
    const texts = [...chart.querySelectorAll("text")].filter(each => each.textContent.trim());
    const boxes = texts.map(each => each.getBoundingClientRect());
    boxes.forEach((one, i) => {
      if (one.left < box.left - 1 || one.right > box.right + 1 || one.top < box.top - 1 || one.bottom > box.bottom + 1)
        cut.push(texts[i].textContent);
      if (one.height < 9) small.push(texts[i].textContent);
      if (one.height > 30) large.push(texts[i].textContent);
      boxes.slice(i + 1).forEach((other, j) => {
        const wide = Math.min(one.right, other.right) - Math.max(one.left, other.left);
        const high = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
        if (wide > 1 && high > 0.3 * one.height)
          overlapping.push(`${texts[i].textContent} / ${texts[i + 1 + j].textContent}`);
      });
    });
  }
  const style = frame.contentWindow.getComputedStyle(page.body);
  return { width: frame.clientWidth, overflow: root.scrollWidth - root.clientWidth, cut, overlapping, small, large,
    charts: page.querySelectorAll("svg.chart").length, background: style.backgroundColor, text: style.color };
}
window.addEventListener("load", () => {
  const found = [...document.querySelectorAll("iframe")].map(look);
  document.getElementById("found").textContent = JSON.stringify(found);
});
"""


def look(page: str, folder: Path, *, widths: tuple[int, ...] = (390, 1280), is_dark: bool = False) -> "Looked":
    """Open a page in frames of these widths."""
    frames = "".join(
        f'<iframe width="{width}" height="900" style="border:0" srcdoc="{escape(page)}"></iframe>' for width in widths
    )
    harness = folder / "harness.html"
    harness.write_text(f'<!doctype html><body>{frames}<pre id="found"></pre><script>{_LOOK}</script></body>')
    assert CHROMIUM is not None
    command = [
        *(
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            "--window-size=1800,1000",
        ),
        *(f"--user-data-dir={folder / 'profile'}", f"--blink-settings=preferredColorScheme={0 if is_dark else 1}"),
        *("--virtual-time-budget=5000", "--dump-dom", harness.as_uri()),
    ]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    found = re.search(r'<pre id="found">(.*?)</pre>', ran.stdout, re.DOTALL)
    assert found is not None, ran.stderr[-2000:]
    text = found.group(1).replace("&quot;", '"').replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    return Looked(json.loads(text), [line for line in ran.stderr.splitlines() if "CONSOLE" in line])


class Looked:
    """What was seen in each frame, and what the console said."""

    def __init__(self, frames: list[dict[str, Any]], console: list[str]) -> None:
        self.frames, self.console = frames, console

    def check(self) -> None:
        """Complain of anything that a reader would."""
        assert not self.console, "\n".join(self.console)
        for frame in self.frames:
            where = f"at {frame['width']} pixels"
            assert frame["overflow"] <= 0, f"{where} the page is {frame['overflow']} pixels too wide"
            assert not frame["cut"], f"{where} labels are cut: {frame['cut']}"
            assert not frame["overlapping"], f"{where} labels overlap: {frame['overlapping']}"
            assert not frame["small"], f"{where} labels are too small to read: {frame['small']}"
            assert not frame["large"], f"{where} labels are larger than any heading: {frame['large']}"
