// Forecast: how much falls due, and when?
import {html, useState} from '../vendor/htm-preact.js';
import {inZone} from '../time.js';
import {A, Loaded, Table, Twins, curl, useData} from '../parts.js';

const views = [['1m', 120, 'Two hours, by minute'], ['1h', 168, 'A week, by hour']];

// Bars is a picture of buckets. An arrow key moves along it and says what is there; the table
// below has the same.
function Bars({items, label}) {
  const [on, set] = useState(-1);
  const most = Math.max(1, ...items.map((b) => b.count));
  const move = (e) => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[e.key];
    if (!step) return;
    e.preventDefault();
    set((i) => Math.min(items.length - 1, Math.max(0, i + step)));
  };
  const said = on < 0 ? 'Move along with the arrow keys.' : `${inZone(items[on].at)}: ${items[on].count}`;
  return html`<div><div role="slider" tabindex="0" onKeyDown=${move} aria-label=${label} aria-valuemin="0"
      aria-valuemax=${items.length - 1} aria-valuenow=${Math.max(0, on)} aria-valuetext=${said}>
    <svg class="bars" viewBox="0 0 ${items.length * 4} 100" preserveAspectRatio="none" aria-hidden="true">
      ${items.map((b, i) => html`<rect x=${i * 4} width="3" y=${100 - (96 * b.count) / most} height=${(96 * b.count) / most}
        class=${i === on ? 'on' : ''} />`)}</svg></div>
    <p>${said} <span class="far">The highest bar is ${most}.</span></p></div>`;
}

export function Forecast({query}) {
  const [bucket, n, label] = views.find(([b]) => b === query.bucket) || views[0];
  const data = useData(`v1/upcoming?bucket=${bucket}&n=${n}`, 60000);
  return html`<article><h1>Forecast</h1>
    <p>${views.map(([b, , text], i) => html`${i ? ' · ' : ''}<${A} to=${'forecast?bucket=' + b}
      aria-current=${b === bucket ? 'true' : undefined}>${text}<//>`)}</p>
    <${Loaded} of=${data}>${({items}) => html`
      <${Bars} items=${items} label=${label} key=${bucket} />
      <details open=${items.length < 130}><summary>As a table</summary>
        <${Table} caption="What falls due, recurrences included" rows=${items.filter((b) => b.count > 0)} none="Nothing is due."
          rowKey=${(b) => b.at} columns=${[['From', (b) => inZone(b.at)], ['Due', (b) => b.count, 'num']]} /></details>`}<//>
    <${Twins} lines=${[curl(`v1/upcoming?bucket=${bucket}&n=${n}`)]} /></article>`;
}
