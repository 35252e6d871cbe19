// Forecast: how much falls due, when, and on which channel?
import {html} from '../vendor/htm-preact.js';
import {query as queryOf} from '../api.js';
import {inZone, At} from '../time.js';
import {Bars} from '../bars.js';
import {A, Line, Loaded, Table, Twins, curl, isSo, kcatTriggers, silence, useData} from '../parts.js';
import {ToRunbook} from './runbook.js';

const views = [
  ['1m', 120, 'Two hours, by minute'], ['1h', 168, 'A week, by hour'], ['1h', 2160, 'Ninety days, by hour'],
];
const groups = ['channel', 'priority', 'tenant'];

// by is a bucket's channels, priorities or tenants with their numbers, the largest first.
const by = (b) => Object.entries(b.by || {}).sort(([, m], [, n]) => n - m)
  .map(([name, n]) => `${name} ${n}`).join(', ');

const widths = {'1m': 60e3, '1h': 3600e3}; // of buckets, in ms

// Due leads to the triggers that fire next within a bucket.
function Due({of: b, bucket}) {
  if (!b.due) return b.due;
  const to = new Date(Date.parse(b.at) + widths[bucket]).toISOString();
  return html`<${A} to=${'triggers' + queryOf({from: b.at, to})} aria-label=${`${b.due} due from ${inZone(b.at)}`}>
    ${b.due}<//>`;
}

// nextBy counts with jq how many triggers fire next in each bucket.
const nextBy = (bucket) => `group_by(.next_at[0:${bucket === '1m' ? 16 : 13}]) | .[] | ` +
  `{at: .[0].next_at[0:${bucket === '1m' ? 16 : 13}], next: length}`;

// Choice is a row of links, one of which is chosen: [text, address, chosen].
const Choice = ({of}) => html`<p>${of.map(([text, to, chosen], i) => html`${i ? ' · ' : ''}<${A} to=${to}
  aria-current=${chosen ? 'true' : undefined}>${text}<//>`)}</p>`;

export function Forecast({query, who}) {
  const offered = groups.filter((g) => g !== 'tenant' || who.rights.includes('operate'));
  const group = offered.includes(query.by) ? query.by : 'channel';
  const view = views.find(([b, n]) => b === query.bucket && String(n) === query.n) ||
    views.find(([b]) => b === query.bucket) || views[0];
  const [bucket, n, label] = view;
  const to = ([b, count], g) => `forecast?bucket=${b}&n=${count}&by=${g}`;
  const path = `v1/${to(view, group)}`;
  const data = useData(path, 30000);
  return html`<article><h1>Forecast</h1>
    <${Choice} of=${views.map((v) => [v[2], to(v, group), v === view])} />
    <${Choice} of=${offered.map((g) => [`By ${g}`, to(view, g), g === group])} />
    <${Loaded} of=${data}>${({items, as_of: asOf, incomplete, silent_partitions: silent}) => html`
      <${Line} kind="fault" role="alert" text=${(silent || []).length ? `Too low: ${silence(silent)}.` : ''} />
      <${Line} kind="warn" text=${incomplete ? `${who.rights.includes('operate') ? `Counts by ${group} are too low` :
        'Too low'}: there are too many tenants, channels and priorities to tell them all apart.` : ''} />
      <${Bars} items=${items} value=${(b) => b.due} says=${(b) => `${b.due} due${by(b) ? ', ' + by(b) : ''}`}
        label=${label} key=${label} />
      <p>Counted as of <${At} at=${asOf} />, jitter included. <${ToRunbook} entry="the-nine-oclock-herd">What to do
        about a herd<//></p>
      <details open=${items.length < 130}><summary>As a table</summary>
        <p>A number of due occurrences leads to the triggers whose next fire is then. A series is on that list once, at
          its next fire, and is counted here each time.${who.rights.includes('operate') ?
            ' The list has your own tenant\'s alone.' : ''}</p>
        <${Table} caption="What falls due, recurrences included" rows=${items.filter((b) => b.due > 0 || b.nominal > 0)}
          none="Nothing is due." goesOn="before" rowKey=${(b) => b.at} columns=${[
            ['From', (b) => inZone(b.at)], ['Due', (b) => html`<${Due} of=${b} bucket=${bucket} />`, 'num'],
            ['Without jitter', (b) => b.nominal, 'num'], [`By ${group}`, by],
          ]} /></details>`}<//>
    <${Twins} lines=${[`waterclock forecast --bucket ${bucket} -n ${n} --by ${group}`, curl(who, path),
      kcatTriggers(who, ['.next_at', '.state != "PAUSED"',
        ...(who.rights.includes('operate') ? [] : [isSo('tenant', who.tenant)])], nextBy(bucket))]} /></article>`;
}
