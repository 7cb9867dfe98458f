"""How the page of `stats --html` looks, by day and by night."""

from __future__ import annotations

STYLE = """
:root{--page:#f6f4ef;--card:#fffdf9;--ink:#22262b;--soft:#6c7078;--line:#e4e0d6;--rail:#efece4;
--strong:#1d6b72;--normal:#5fa39b;--weak:#dfa640;--forgettable:#c65a3a;--accent:#3d5a94;--archive:#8d87a6}
@media (prefers-color-scheme:dark){:root{--page:#14171b;--card:#1c2026;--ink:#e7e5df;--soft:#989da6;--line:#2e343c;
--rail:#262b32;--strong:#4fb3b3;--normal:#3f8480;--weak:#d9a441;--forgettable:#e0714f;--accent:#8fa8e0;
--archive:#8f88b0}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:1080px;margin:0 auto;padding:36px 20px 48px}
h1{font-size:28px;letter-spacing:-.02em;margin:0;overflow-wrap:anywhere}
h2{font-size:17px;margin:0}
h3{font-size:14px;margin:0 0 6px;font-weight:600;overflow-wrap:anywhere}
header p,section>p,footer,small{color:var(--soft)}
header p{margin:2px 0 22px}
section{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:20px 22px;margin:0 0 18px;
min-width:0}
section>p{margin:0 0 16px;font-size:13px}
small{display:block;font-size:12px;font-weight:400}
dl,ul{margin:0;padding:0;list-style:none}
dd{margin:0}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;margin:0 0 18px}
.figures div{background:var(--card);border:1px solid var(--line);border-radius:12px;padding:14px 18px;display:flex;
flex-direction:column-reverse;justify-content:flex-end}
.figures dd{font-size:26px;font-weight:650;letter-spacing:-.02em;line-height:1.2;font-variant-numeric:tabular-nums}
.figures dt{color:var(--soft);font-size:13px}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(320px,1fr));gap:18px}
.bars li{display:grid;grid-template-columns:minmax(110px,34%) 1fr 56px;gap:12px;align-items:center;padding:7px 0}
.bars svg{width:100%;height:16px;border-radius:4px;display:block}
.bars .name{overflow-wrap:anywhere}
.count{text-align:right;font-variant-numeric:tabular-nums;font-weight:600}
.rail{fill:var(--rail)}
.tier-fast{fill:var(--forgettable)}.tier-medium{fill:var(--weak)}.tier-slow{fill:var(--normal)}
.tier-glacial{fill:var(--accent)}
rect.archive{fill:var(--archive)}
.strong{fill:var(--strong);background:var(--strong)}.normal{fill:var(--normal);background:var(--normal)}
.weak{fill:var(--weak);background:var(--weak)}.forgettable{fill:var(--forgettable);background:var(--forgettable)}
.plot{width:100%;height:auto;display:block}
.plot text{fill:var(--soft);font-size:11px}
.plot .value{fill:var(--ink);font-size:12px;font-weight:600}
.axis{stroke:var(--line);stroke-width:1}
.legend{display:flex;flex-wrap:wrap;gap:6px 18px;font-size:13px;color:var(--soft)}
.legend i{display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:7px}
.courses{display:grid;grid-template-columns:repeat(auto-fit,minmax(260px,1fr));gap:22px 28px}
.courses li{min-width:0;display:flex;flex-direction:column;justify-content:space-between}
.courses p{margin:4px 0 0;font-size:13px;color:var(--soft)}
.courses b{color:var(--ink)}
.area{fill:var(--accent);opacity:.14}
.gone{fill:none;stroke:var(--accent);stroke-width:2}
.coming{fill:none;stroke:var(--accent);stroke-width:2;stroke-dasharray:5 4}
.threshold{stroke:var(--forgettable);stroke-width:1;stroke-dasharray:2 3}
.today{stroke:var(--line);stroke-width:1}
.now{fill:var(--accent)}
.fall{fill:var(--card);stroke:var(--forgettable);stroke-width:2}
.none{color:var(--soft);margin:8px 0 0}
.moves{display:flex;flex-wrap:wrap;gap:8px;margin:0 0 16px}
.moves div{border:1px solid var(--line);border-radius:8px;padding:6px 12px}
.moves dt{font-size:12px;color:var(--soft)}
.moves dd{font-variant-numeric:tabular-nums}
.moves .moved{border-color:var(--accent)}.moves .moved dd{font-weight:650}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:14px}
th{text-align:left;font-size:12px;font-weight:600;color:var(--soft)}
th,td{padding:8px 14px 8px 0;border-bottom:1px solid var(--line);vertical-align:top;overflow-wrap:anywhere}
tbody tr:last-child td{border-bottom:0}
.tag{display:inline-block;white-space:nowrap;border-radius:6px;padding:1px 8px;font-size:12px;font-weight:600;
border:1px solid currentColor}
.tag.archive,.tag.merge{color:var(--archive)}.tag.erase{color:var(--forgettable)}.tag.move{color:var(--strong)}
footer{font-size:13px;padding:6px 4px}
code{font-family:ui-monospace,"SF Mono",Consolas,monospace;font-size:.92em}
"""
