"""How a page of a report looks: light or dark as the reader's system, as wide as the window, tables that scroll."""

from __future__ import annotations

STYLESHEET = """
:root {
  color-scheme: light dark;
  --page: #ffffff; --text: #1f2328; --quiet: #59636e; --line: #d1d9e0; --stripe: #f6f8fa; --link: #0969da;
  --notice: #9a6700; --notice-fill: #fff8c5;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0d1117; --text: #e6edf3; --quiet: #9198a1; --line: #3d444d; --stripe: #151b23; --link: #4493f8;
    --notice: #d29922; --notice-fill: #272115;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 76rem; margin: 0 auto; padding: 1rem clamp(0.75rem, 3vw, 2.5rem) 4rem; }
h1, h2, h3 { line-height: 1.25; overflow-wrap: anywhere; }
h2 { margin-top: 2.5rem; padding-bottom: 0.3rem; border-bottom: 1px solid var(--line); }
h3 { margin-top: 2rem; }
p, ul, .notice { max-width: 52rem; overflow-wrap: anywhere; }
a { color: var(--link); }
nav ul { columns: 22rem; padding-left: 1.25rem; }
.notice { padding: 0.6rem 1rem; border-left: 4px solid var(--notice); background: var(--notice-fill); }
.scroll, figure, pre { overflow-x: auto; margin: 1rem 0; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
table { border-collapse: collapse; font-size: 0.875rem; line-height: 1.4; }
th, td { padding: 0.3rem 0.7rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
th { color: var(--quiet); font-weight: 600; border-bottom-width: 2px; }
tbody tr:nth-child(even) { background: var(--stripe); }
th { vertical-align: bottom; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
td.number, .short { white-space: nowrap; }
.middle { min-width: 12rem; }
.long { min-width: 20rem; }
figure { color: var(--quiet); }
figure svg { display: block; font-family: system-ui, sans-serif; }
pre { padding: 0.75rem 1rem; background: var(--stripe); font-size: 0.8rem; }
@media print { .scroll, figure, pre { overflow: visible; } main { max-width: none; } }
"""
