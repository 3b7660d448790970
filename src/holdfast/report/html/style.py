"""The style sheet of the HTML page, in light and dark."""

PAGE = """\
:root {
  color-scheme: light dark;
  --paper: #fbfaf7; --ink: #1d2127; --soft: #66707c; --line: #e2e0d9; --card: #ffffff;
  --bar: #2f6f8f; --rows: #7a5195; --good: #2e7d4f; --careful: #a8660a; --bad: #b3302a;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14171b; --ink: #e6e4df; --soft: #98a1ab; --line: #2b3037; --card: #1b1f24;
    --bar: #6fb1d0; --rows: #b795cf; --good: #6cc08f; --careful: #e0a44c; --bad: #ef7d75;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 2rem 1.25rem 3rem; }
h1 { font: 600 1.15rem/1.4 ui-monospace, "SF Mono", Menlo, Consolas, monospace; margin: 0;
  overflow-wrap: anywhere; }
h2 { font-size: .95rem; margin: 0 0 .75rem; }
h3 { font-size: .8rem; font-weight: 600; color: var(--soft); margin: .75rem 0 .4rem; }
code { font: .92em ui-monospace, "SF Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }
.verdict { font-size: 1.25rem; line-height: 1.35; margin: .5rem 0 1.5rem; font-weight: 600; }
.good { color: var(--good); } .careful { color: var(--careful); } .bad { color: var(--bad); }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 1rem 1.15rem; margin: 0 0 1rem; overflow-x: auto; }
.numbers { display: grid; grid-template-columns: repeat(auto-fit, minmax(7.5rem, 1fr)); gap: 1rem; }
.numbers b { display: block; font-size: 1.4rem; line-height: 1.2; font-weight: 600;
  font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.numbers span, small, footer, .tick, .legend { color: var(--soft); }
.numbers span { font-size: .8rem; }
table { border-collapse: collapse; width: 100%; font-size: .875rem; }
th { text-align: left; font-weight: 600; color: var(--soft); white-space: nowrap; }
th, td { padding: .3rem .9rem .3rem 0; vertical-align: top; border-top: 1px solid var(--line);
  overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
tr:first-child > * { border-top: 0; }
.facts th { color: var(--ink); width: 11rem; }
.facts td:nth-child(2) { width: 6.5rem; }
small { display: block; font-size: .8rem; }
.status { font-size: .75rem; border: 1px solid currentColor; border-radius: 99px; padding: 0 .5rem;
  white-space: nowrap; }
.status.known { color: var(--good); } .status.absent { color: var(--soft); }
.status.unknown { color: var(--careful); } .status.unreadable { color: var(--bad); }
svg { display: block; width: 100%; min-width: 34rem; height: auto; }
svg.band { min-width: 0; }
.batches td { white-space: nowrap; }
.axis { stroke: var(--soft); stroke-width: 1; } .grid { stroke: var(--line); stroke-width: 1; }
.tick { font-size: 11px; fill: var(--soft); }
rect.bar { fill: var(--bar); } rect.rows { fill: var(--rows); }
rect.careful { fill: var(--careful); }
rect:hover { opacity: .75; }
.s0 { fill: #2f6f8f; background: #2f6f8f; } .s1 { fill: #d08c36; background: #d08c36; }
.s2 { fill: #5b8c5a; background: #5b8c5a; } .s3 { fill: #7a5195; background: #7a5195; }
.s4 { fill: #b3524a; background: #b3524a; } .s5 { fill: #4a9c97; background: #4a9c97; }
.s6 { fill: #9a8b4f; background: #9a8b4f; } .s7 { fill: #8b909a; background: #8b909a; }
.s8 { fill: #c77ba8; background: #c77ba8; } .s9 { fill: #6d83c4; background: #6d83c4; }
.s10 { fill: #a3b85a; background: #a3b85a; } .s11 { fill: #7d6353; background: #7d6353; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; padding: 0;
  margin: .75rem 0 0; font-size: .8rem; }
.dot { display: inline-block; width: .65rem; height: .65rem; border-radius: 2px;
  margin-right: .4rem; }
.files { margin: 0; padding: 0; list-style: none;
  font: .8rem/1.6 ui-monospace, Menlo, Consolas, monospace;
  overflow-wrap: anywhere; }
table + .files, p + svg { margin-top: .75rem; }
p { margin: 0 0 .5rem; }
footer { font-size: .8rem; }
@media (max-width: 40rem) {
  .facts tr { display: grid; grid-template-columns: 1fr auto; border-top: 1px solid var(--line);
    padding: .3rem 0; }
  .facts tr:first-child { border-top: 0; }
  .facts th, .facts td { border-top: 0; width: auto; padding: 0; }
  .facts td:last-child { grid-column: 1 / -1; }
}
"""
