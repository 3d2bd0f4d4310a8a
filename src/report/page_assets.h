// The style sheet and the script of the report page, in the page itself: a file one can mail, with nothing to fetch.
#pragma once

namespace siamese {

// Series colours were chosen by search: at least 3:1 against the page, and apart from each other (CIE76 ΔE ≥ 19 among
// the first four, ≥ 17 among all) for normal, protan, deutan and tritan vision, in both schemes.
inline constexpr const char* kPageStyle = R"css(
:root {
  color-scheme: light dark;
  --page: #ffffff; --ink: #1d1f24; --soft: #5c616b; --line: #e3e5e9; --axis: #9aa0aa;
  --tint: #f5f6f8; --best: #e4f3ea;
  --s0: #2340cf; --s1: #d97511; --s2: #13a06f; --s3: #93458e;
  --s4: #5e3e0a; --s5: #387cd7; --s6: #363645; --s7: #e32147;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #16181d; --ink: #e6e8ec; --soft: #a0a6b1; --line: #2b2f37; --axis: #5d646f;
    --tint: #1d2026; --best: #1e3a2c;
    --s0: #39c3f5; --s1: #d08a2a; --s2: #4f9c69; --s3: #cc55a5;
    --s4: #d6de49; --s5: #aaf0f4; --s6: #a9b4bd; --s7: #f3b39f;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 3rem 2rem 5rem; max-width: 1180px; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Liberation Sans", sans-serif;
  font-variant-numeric: tabular-nums;
}
h1, h2 { font-weight: 650; overflow-wrap: anywhere; }
h1 { margin: 0; font-size: 1.9rem; line-height: 1.2; letter-spacing: -.015em; }
h2 { margin: 3rem 0 .8rem; font-size: 1.2rem; }
h3 { margin: 0; font-size: 1rem; font-weight: 650; }
.lead { margin: .7rem 0 0; max-width: 68ch; color: var(--soft); font-size: 1.06rem; white-space: pre-line; }
.scroll { overflow-x: auto; margin-top: 1.8rem; }
table { border-collapse: collapse; font-size: .92rem; }
th, td {
  padding: .45rem 1.1rem .45rem .6rem; border-bottom: 1px solid var(--line); text-align: left; white-space: nowrap;
}
th { color: var(--soft); font-weight: 500; border-bottom-color: var(--axis); vertical-align: bottom; }
.number { text-align: right; padding: .45rem .6rem .45rem 1.1rem; }
.best { background: var(--best); font-weight: 600; }
.hint { margin: .6rem 0 1.4rem; color: var(--soft); font-size: .85rem; }
.hint b { padding: .1em .45em; border-radius: 3px; font-weight: 600; color: var(--ink); background: var(--best); }
.charts { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 2.6rem 2.4rem; }
figure { margin: 0; display: flex; flex-direction: column; }
figcaption span { color: var(--soft); font-size: .85rem; }
figcaption { display: flex; flex-wrap: wrap; gap: 0 .7rem; align-items: baseline; }
.legend {
  display: flex; flex-wrap: wrap; gap: .1rem 1.3rem; margin: .35rem 0 .6rem; padding: 0;
  list-style: none; font-size: .86rem;
}
.legend li { display: flex; align-items: center; column-gap: .4rem; flex-wrap: wrap; overflow-wrap: anywhere; }
.legend .value { color: var(--soft); }
.legend .fate { color: var(--soft); font-style: italic; }
.key { width: 30px; height: 14px; flex: none; }
.plot { width: 100%; height: auto; display: block; touch-action: pan-y; }
svg text { font-size: 13px; fill: var(--soft); }
svg path { fill: none; stroke-linecap: round; stroke-linejoin: round; }
.grid { stroke: var(--line); stroke-width: 1; }
.axis, .tick { stroke: var(--axis); stroke-width: 1; }
.raw { stroke: var(--c); stroke-width: 1; stroke-opacity: .2; }
.main { stroke: var(--c); stroke-width: 2; }
.again { stroke-dasharray: 6 4; }
svg .mark, svg .exit { fill: var(--c); stroke: var(--page); stroke-width: 1.5; stroke-dasharray: none; }
.lost { stroke: var(--c); stroke-width: 2.4; stroke-dasharray: none; }
.cursor { display: none; }
.cursor path { stroke: var(--axis); stroke-dasharray: 3 3; }
.cursor text { fill: var(--ink); text-anchor: middle; }
.on .cursor { display: inline; }
.s0 { --c: var(--s0); } .s1 { --c: var(--s1); } .s2 { --c: var(--s2); } .s3 { --c: var(--s3); }
.s4 { --c: var(--s4); } .s5 { --c: var(--s5); } .s6 { --c: var(--s6); } .s7 { --c: var(--s7); }
pre {
  margin: 0; padding: 1rem 1.2rem; max-height: 30rem; overflow: auto; background: var(--tint); border-radius: 6px;
  font: .85rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace;
  white-space: pre-wrap; overflow-wrap: anywhere; tab-size: 4;
}
@media (max-width: 860px) {
  body { padding: 2rem 1rem 4rem; }
  h1 { font-size: 1.55rem; }
  .charts { grid-template-columns: minmax(0, 1fr); }
}
@media (max-width: 560px) {
  svg text { font-size: 20px; }
  .main { stroke-width: 3; }
  .key .main { stroke-width: 2; }
}
@media print { pre { max-height: none; } figure, table { break-inside: avoid; } }
)css";

// Reads the values back from the drawn paths, so the page carries its numbers once. Without it the page loses nothing
// but the read-out under the pointer.
inline constexpr const char* kPageScript = R"js(
for (const svg of document.querySelectorAll('svg.plot')) {
  const numbers = text => text.trim().split(' ').map(Number);
  const [left, top, right, bottom] = numbers(svg.dataset.frame), [x0, x1, y0, y1] = numbers(svg.dataset.range);
  const values = [...svg.closest('figure').querySelectorAll('.value')], ends = values.map(v => v.textContent);
  const points = path => path.getAttribute('d').match(/[ML][^MLh]+/g).map(s => numbers(s.slice(1)));
  const lines = [...svg.querySelectorAll('g .main')].map(points);
  const cursor = svg.querySelector('.cursor'), label = cursor.querySelector('text');
  const nearest = (line, x) => line.reduce((a, b) => Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a);
  const show = y => {
    if (y < top) return '↑';
    const v = y1 - (y - top) / (bottom - top) * (y1 - y0), value = svg.dataset.log ? 10 ** v : v;
    const size = Math.abs(value);
    if (size >= 1e4 && size < 1e9) return Math.round(value).toLocaleString('en-US');
    return size >= 1e-2 && size < 1e4 || size < 1e-12 ? value.toPrecision(4) : value.toExponential(3).replace('+', '');
  };
  svg.addEventListener('pointermove', event => {
    const box = svg.getBoundingClientRect();
    const at = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
    const x = nearest(lines.map(line => nearest(line, at)), at)[0];
    lines.forEach((line, i) => {
      const inside = x >= line[0][0] - 4 && x <= line[line.length - 1][0] + 4;
      values[i].textContent = inside ? show(nearest(line, x)[1]) : '–';
    });
    cursor.firstElementChild.setAttribute('transform', `translate(${x} 0)`);
    label.setAttribute('x', Math.min(Math.max(x, left + 30), right - 30));
    label.textContent = Math.round(x0 + (x - left) / (right - left) * (x1 - x0)).toLocaleString('en-US');
    svg.classList.add('on');
  });
  svg.addEventListener('pointerleave', () => {
    values.forEach((v, i) => { v.textContent = ends[i]; });
    svg.classList.remove('on');
  });
}
)js";

}  // namespace siamese
