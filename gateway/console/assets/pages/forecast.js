// Forecast: how much falls due, when, and on which channel?
import {html} from '../vendor/htm-preact.js';
import {inZone, At} from '../time.js';
import {Bars} from '../bars.js';
import {A, Loaded, Table, Twins, curl, useData} from '../parts.js';

const views = [['1m', 120, 'Two hours, by minute'], ['1h', 168, 'A week, by hour']];

// by is a bucket's channels with their numbers, the largest first.
const by = (b) => Object.entries(b.by || {}).sort(([, m], [, n]) => n - m)
  .map(([name, n]) => `${name} ${n}`).join(', ');

export function Forecast({query}) {
  const [bucket, n, label] = views.find(([b]) => b === query.bucket) || views[0];
  const path = `v1/forecast?bucket=${bucket}&n=${n}&by=channel`;
  const data = useData(path, 30000);
  return html`<article><h1>Forecast</h1>
    <p>${views.map(([b, , text], i) => html`${i ? ' · ' : ''}<${A} to=${'forecast?bucket=' + b}
      aria-current=${b === bucket ? 'true' : undefined}>${text}<//>`)}</p>
    <${Loaded} of=${data}>${({items, as_of: asOf, silent_partitions: silent}) => html`
      ${(silent || []).length ? html`<p class="fault" role="alert">Too low: ${silent.length} partitions have not
        answered (${silent.join(', ')}).</p>` : ''}
      <${Bars} items=${items} value=${(b) => b.due} says=${(b) => `${b.due} due${by(b) ? ', ' + by(b) : ''}`}
        label=${label} key=${bucket} />
      <p>Counted as of <${At} at=${asOf} />, jitter included.</p>
      <details open=${items.length < 130}><summary>As a table</summary>
        <${Table} caption="What falls due, recurrences included" rows=${items.filter((b) => b.due > 0 || b.nominal > 0)}
          none="Nothing is due." rowKey=${(b) => b.at} columns=${[
            ['From', (b) => inZone(b.at)], ['Due', (b) => b.due, 'num'],
            ['Without jitter', (b) => b.nominal, 'num'], ['By channel', by],
          ]} /></details>`}<//>
    <${Twins} lines=${[`waterclock forecast --bucket ${bucket} -n ${n} --by channel`, curl(path)]} /></article>`;
}
