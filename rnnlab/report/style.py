"""How a report looks: colours for day and night, type, tables that become cards on a phone."""

# after Okabe and Ito: eight colours that people with any kind of colour vision tell apart
DAY = ("#0072b2", "#d55e00", "#007a5a", "#b0508a", "#a86f00", "#3a8fc4", "#5b4bb5", "#555555")
NIGHT = ("#56b4e9", "#ff9040", "#2fcf9f", "#e39ac4", "#f0c040", "#9ad0f5", "#b3a6ff", "#c8c8c8")


def style_sheet() -> str:
    """The whole style sheet."""
    return _SHEET.replace("/*DAY*/", _colours(DAY)).replace("/*NIGHT*/", _colours(NIGHT)).replace("/*INKS*/", _inks())


def _colours(colours: tuple[str, ...]) -> str:
    return " ".join(f"--c{number}: {colour};" for number, colour in enumerate(colours))


def _inks() -> str:
    return "\n".join(f".c{number} {{ --ink: var(--c{number}); }}" for number in range(len(DAY)))


_SHEET = """
:root { color-scheme: light dark; --page: #fbfaf8; --card: #ffffff; --text: #1d1d1f; --quiet: #5f6064;
  --rule: #dddbd6;
  --grid: #e6e4df; --accent: #0a5f8f; --soft: #eef4f8; /*DAY*/ }
@media (prefers-color-scheme: dark) {
  :root { --page: #141517; --card: #1d1f22; --text: #ececea; --quiet: #a3a5aa; --rule: #35373c; --grid: #303237;
    --accent: #7cc4f0; --soft: #1c2a35; /*NIGHT*/ }
  .picture svg { filter: invert(0.93) hue-rotate(180deg) brightness(1.4); }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--page); color: var(--text);
  font: 17px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 24px 20px 64px; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0.4em 0 0.2em; letter-spacing: -0.01em; overflow-wrap: anywhere; }
h2 { font-size: 1.3rem; line-height: 1.3; margin: 2.2em 0 0.5em; }
h3 { font-size: 1.05rem; margin: 1.4em 0 0.4em; }
p { margin: 0.5em 0; max-width: 68ch; }
a { color: var(--accent); }
.quiet, figcaption, caption { color: var(--quiet); }
.verdict { background: var(--soft); border-left: 5px solid var(--accent); border-radius: 10px;
  padding: 18px 22px; margin: 20px 0 28px; }
.verdict .sentence { font-size: 1.3rem; line-height: 1.4; font-weight: 600; margin: 0 0 0.4em; max-width: 60ch; }
.verdict p { margin: 0.25em 0; overflow-wrap: anywhere; }
.figures > *, .multiples > *, .gallery > * { min-width: 0; }
figure h3, figcaption { overflow-wrap: anywhere; }
.verdict ul { margin: 0.4em 0; padding-left: 1.2em; }
.verdict li { margin: 0.3em 0; max-width: 90ch; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.94rem; font-variant-numeric: tabular-nums; width: 100%; }
th, td { text-align: right; padding: 7px 10px; border-bottom: 1px solid var(--rule); white-space: nowrap; }
th:first-child, td:last-child.words, .words td:last-child, .words th:last-child { text-align: left; }
.words tbody th, .words td:last-child { white-space: normal; min-width: 10em; }
thead th { color: var(--quiet); font-weight: 600; vertical-align: bottom; white-space: normal; }
tbody th { font-weight: 600; }
tr.emphasised { background: var(--soft); }
.key { display: inline-block; width: 0.75em; height: 0.75em; border-radius: 3px; background: var(--ink);
  margin-right: 0.5em; }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 440px), 1fr)); gap: 24px;
  align-items: start; }
figure { margin: 0; background: var(--card); border: 1px solid var(--rule); border-radius: 12px;
  padding: 14px 16px; min-width: 0; }
figure h3 { margin: 0 0 8px; }
figcaption { font-size: 0.92rem; line-height: 1.45; margin-top: 8px; }
.multiples { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 300px), 1fr)); gap: 14px 22px; }
.multiples.even { grid-template-columns: repeat(auto-fill, minmax(min(100%, 420px), 1fr)); }
.wide { margin-top: 24px; }
.chart { display: block; width: 100%; height: auto; }
.gallery { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 235px), 1fr)); gap: 18px; }
.picture { text-align: center; }
.picture svg { display: block; max-width: 100%; height: auto; max-height: 320px; margin: 0 auto; border-radius: 8px; }
.picture h3 { text-align: left; }
.picture figcaption { text-align: left; }
details { margin-top: 10px; font-size: 0.94rem; }
summary { cursor: pointer; color: var(--accent); padding: 4px 0; }
pre { overflow-x: auto; background: var(--soft); border-radius: 8px; padding: 12px 14px; font-size: 0.86rem;
  line-height: 1.45;
  max-width: 100%; }
pre.wrapped { white-space: pre-wrap; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: minmax(8em, max-content) 1fr; gap: 6px 18px; margin: 0.5em 0; }
dt { font-weight: 600; }
dd { margin: 0; max-width: 72ch; overflow-wrap: anywhere; }
svg text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif; }
.chart text { font-size: 13px; fill: var(--text); }
.chart .tick, .chart .title, .chart .note { fill: var(--quiet); }
.chart .note { font-size: 12px; }
.chart .name { font-weight: 600; }
.chart .name, .chart .note { paint-order: stroke; stroke: var(--card); stroke-width: 4px; stroke-linejoin: round; }
.chart .grid { stroke: var(--grid); stroke-width: 1; }
.chart .axis { stroke: var(--quiet); stroke-width: 1; }
.chart .reference { stroke: var(--quiet); stroke-width: 1.4; stroke-dasharray: 2 4; }
.chart .line, .chart .best, .chart .median { fill: none; stroke: var(--ink); stroke-width: 2.2;
  stroke-linejoin: round; }
.chart .median { stroke-width: 1.6; stroke-dasharray: 6 4; }
.chart .band { fill: var(--ink); opacity: 0.16; }
.chart .mark { fill: var(--ink); }
.chart .faint { opacity: 0.55; }
.chart .interval { stroke: var(--ink); stroke-width: 4; }
.chart .mean { stroke: var(--text); stroke-width: 2.4; }
.chart .bar { fill: var(--ink); }
.chart .diverged { stroke: var(--quiet); stroke-width: 1.4; }
.d1 { stroke-dasharray: 9 4; } .d2 { stroke-dasharray: 3 3; } .d3 { stroke-dasharray: 11 4 2 4; }
/*INKS*/
@media (max-width: 640px) {
  body { font-size: 16px; }
  main { padding: 14px 14px 48px; }
  h1 { font-size: 1.5rem; }
  .verdict { padding: 14px 16px; }
  .verdict .sentence { font-size: 1.12rem; }
  figure { padding: 12px; }
  dl { grid-template-columns: 1fr; gap: 2px; }
  dd { margin-bottom: 10px; }
  .cards thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .cards, .cards tbody, .cards tr, .cards th, .cards td { display: block; }
  .cards tr { border: 1px solid var(--rule); border-radius: 10px; margin: 0 0 12px; padding: 8px 12px; }
  .cards th, .cards td { border: 0; padding: 3px 0; text-align: left; white-space: normal; }
  .cards td { display: flex; justify-content: space-between; gap: 16px; text-align: right; }
  .cards td::before { content: attr(data-label); color: var(--quiet); text-align: left; }
}
@media print { details > * { display: block; } figure { break-inside: avoid; } }
"""
