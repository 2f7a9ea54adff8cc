"""The style sheet of the report."""

CSS = """
:root { color-scheme: light dark; --bg: #f5f6f8; --card: #fff; --ink: #1b2430; --muted: #56606e;
  --line: #dfe3e8; --good: #00664a; --unsure: #855300; --failed: #b3261e;
  --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #b8578f; --c4: #b27b00; --c5: #3d9bd4; }
@media (prefers-color-scheme: dark) { :root { --bg: #12161c; --card: #1b2129; --ink: #e6eaf0;
  --muted: #a3adba; --line: #343d49; --good: #4fd0a5; --unsure: #f0b84a; --failed: #ff8a80;
  --c0: #5fb0e8; --c1: #f58a4b; --c2: #35c79a; --c3: #e39cc6; --c4: #f0bd45; --c5: #9ad4f7; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--bg); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
header, main, footer { max-width: 1240px; margin: 0 auto; padding: 0 20px; }
header { padding-top: 28px; }
footer { padding-top: 28px; padding-bottom: 32px; color: var(--muted); font-size: 13px; }
h1, h2, h3, h4, p { margin: 0; overflow-wrap: anywhere; } h1 { font-size: 26px; line-height: 1.25; }
h2 { font-size: 21px; margin: 36px 0 12px; padding-top: 14px; border-top: 2px solid var(--line); }
h3 { font-size: 16px; margin: 26px 0 10px; } h4 { font-size: 14px; }
nav { margin-top: 8px; display: flex; flex-wrap: wrap; gap: 4px 18px; } a { color: var(--c0); }
figcaption, dt, .note { color: var(--muted); font-size: 13px; } dl, dd { margin: 0; }
.note { margin-top: 8px; }
.verdict { background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  border-left: 6px solid var(--tone); padding: 14px 18px; margin-bottom: 14px; }
.verdict b { color: var(--tone); display: block; font-size: 18px; overflow-wrap: anywhere; }
.verdict ul { margin: 6px 0; padding-left: 20px; overflow-wrap: anywhere; }
.good { --tone: var(--good); } .unsure { --tone: var(--unsure); } .failed { --tone: var(--failed); }
.tiles, .grid, .settings { display: grid; gap: 14px; }
.tiles { grid-template-columns: repeat(auto-fill, minmax(min(200px, 42%), 1fr)); }
.settings { grid-template-columns: repeat(auto-fill, minmax(135px, 1fr)); }
.settings .wide { grid-column: span 2; }
.grid { grid-template-columns: repeat(auto-fill, minmax(min(100%, 350px), 1fr)); }
.card, .tile { background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  padding: 12px 14px; margin: 0; min-width: 0; }
.card.settings { margin-bottom: 14px; } .settings dd { overflow-wrap: anywhere; }
.tile { display: flex; flex-direction: column; justify-content: space-between; }
.tile dt { line-height: 1.35; }
.tile dd { font-size: 22px; font-weight: 600; font-variant-numeric: tabular-nums; }
.card svg { display: block; width: 100%; height: auto; margin: 4px 0; }
.card svg text { font-family: inherit !important; }
.legend { display: flex; flex-wrap: wrap; gap: 0 14px; font-size: 13px; overflow-wrap: anywhere; }
.legend i { display: inline-block; width: 20px; height: 0; border-top: 3px solid var(--key);
  margin-right: 6px; vertical-align: middle; }
.legend .dash { border-top-style: dashed; } .legend .dot { width: 9px; height: 9px; border: 0;
  border-radius: 5px; background: var(--key); }
.legend .band { height: 11px; border: 0; background: var(--key); opacity: 0.3; }
details.card, .grid + .grid { margin-top: 14px; } summary { cursor: pointer; font-weight: 600; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { padding: 5px 0 5px 16px; text-align: right; border-bottom: 1px solid var(--line);
  font-variant-numeric: tabular-nums; white-space: nowrap; }
th:first-child { padding-left: 0; text-align: left; white-space: normal; min-width: 130px;
  position: sticky; left: 0; background: var(--card); }
thead th { font-weight: 600; white-space: normal; overflow-wrap: break-word; min-width: 72px; }
tbody th { font-weight: 400; color: var(--muted); }
@media print { body { background: #fff; } .card, .tile, .verdict { break-inside: avoid; } }
"""
