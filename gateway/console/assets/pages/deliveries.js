// Deliveries: what failed, and why?
import {html} from '../vendor/htm-preact.js';
import {query as queryOf} from '../api.js';
import {At, inZone} from '../time.js';
import {Redrive} from './acts.js';
import {ToRunbook} from './runbook.js';
import {
  A, Loaded, More, NoHistory, Table, ToTrigger, Twins, kcatReads, none, quoted, tenants, useData, useList, visible,
} from '../parts.js';

const full = 50; // rows of a page

// causes counts refused commands by their code, the most frequent first.
function causes(commands) {
  const by = new Map();
  for (const c of commands) by.set(c.code, [...(by.get(c.code) || []), c]);
  return [...by].sort(([, a], [, b]) => b.length - a.length);
}

export function Deliveries({query, who, say}) {
  const letters = useList(who.history ? 'v1/dead-letters' +
    queryOf({code: query.code, channel: query.channel, limit: full}) : '', full, 15000);
  const refused = useList('v1/rejected' + queryOf({code: query.refused, limit: full}), full, 15000);
  const operates = who.rights.includes('operate');
  const channels = useData('v1/channels', operates ? 10000 : 0);
  const endpoints = useData(operates ? 'v1/endpoints' : '', 10000);
  return html`<article><h1>Deliveries</h1>
    <h2>Dead letters${query.code ? ` with code ${visible(query.code)}` : ''}</h2>
    ${query.code ? html`<p><${A} to="deliveries">All codes<//></p>` : ''}
    <p><${ToRunbook} entry="waterclockdeadletters">What to do about dead letters<//></p>
    ${who.history ? html`<${Loaded} of=${letters.first}>${() => html`<${Table} caption="The newest first"
      rows=${letters.items} none=${none(letters, 'None is open.')} rowKey=${(l) => l.partition + '/' + l.offset}
      columns=${[
        ['Trigger', (l) => html`<${ToTrigger} id=${l.trigger_id} tenant=${l.tenant} who=${who} />`],
        ...tenants(letters.items, who),
        ['Status', (l) => html`${l.status}${l.status === 'open' ? html` <${Redrive} of=${l} who=${who}
          done=${(text) => { say(text); letters.first.reload(); }} />` : ''}`],
        ['Code', (l) => l.code], ['Detail', (l) => l.detail || ''], ['Channel', (l) => l.channel],
        ['Endpoint', (l) => l.endpoint || ''],
        ['Attempts', (l) => l.attempts, 'num'],
        ['Scheduled', (l) => (l.scheduled_at ? inZone(l.scheduled_at) : '')],
        ['Failed', (l) => html`<${At} at=${l.failed_at} />`],
      ]} /><${More} of=${letters} />`}<//>` : html`<${NoHistory} />`}
    <h2>Refused commands${query.refused ? ` with code ${visible(query.refused)}` : ''}</h2>
    ${query.refused ? html`<p><${A} to="deliveries">All codes<//></p>` : ''}
    <p><${ToRunbook} entry="waterclockrefusals">What to do about refused commands<//></p>
    <${Loaded} of=${refused.first}>${() => html`${query.refused || refused.items.length === 0 ? '' : html`
      <${Table} caption=${`By cause, of the newest ${refused.items.length}`} rows=${causes(refused.items)}
        rowKey=${([code]) => code} columns=${[
          ['Code', ([code]) => html`<${A} to=${'deliveries?refused=' + encodeURIComponent(code)}>
            ${visible(code)}<//>`],
          ['Commands', ([, all]) => all.length, 'num'], ['For example', ([, [c]]) => c.detail || c.field || ''],
        ]} />`}
      <${Table} caption="Refused commands, the newest first" rows=${refused.items}
      none=${none(refused, 'None.')} rowKey=${(c) => c.source} columns=${[
        ['Trigger', (c) => (c.trigger_id ? html`<${ToTrigger} id=${c.trigger_id} tenant=${c.tenant} who=${who} />` :
          'no key')],
        ...tenants(refused.items, who),
        ['Code', (c) => c.code], ['Field', (c) => c.field || ''],
        ['What to write instead', (c) => c.detail || '', 'text'],
        ['At', (c) => html`<${At} at=${c.at} />`], ['Record', (c) => html`<code>${c.source}</code>`],
      ]} /><${More} of=${refused} />`}<//>
    ${operates ? html`<h2>Endpoints</h2>
      <${Loaded} of=${endpoints}>${({items}) => html`<${Table} caption="Origins that callbacks go to" rows=${items}
        none="None was called yet." rowKey=${(e) => e.tenant + e.origin} columns=${[
          ['Origin', (e) => e.origin], ['Tenant', (e) => e.tenant],
          ['Breaker', (e) => html`<span class=${e.state === 'closed' ? 'good' : 'bad'}>${e.state}</span>`],
          ['In flight', (e) => e.in_flight, 'num'], ['Answered', (e) => e.ok, 'num'],
          ['Failed', (e) => e.failed, 'num'], ['Last', (e) => e.last_code || ''],
        ]} />`}<//>` : ''}
    <h2>Channels</h2>
    <${Loaded} of=${channels}>${({items}) => html`<${Table} caption="Where due events go" rows=${items} none="None."
      rowKey=${(c) => c.name} columns=${[
        ['Channel', (c) => html`<${A} to=${'triggers?channel=' + encodeURIComponent(c.name)}>${c.name}<//>`],
        ['Topic', (c) => html`<code>${c.topic}</code>`], ['Partitions', (c) => c.partitions || 'no topic yet', 'num'],
        ...(items.some((c) => c.waiting !== undefined) ?
          [['Not read yet', (c) => c.waiting ?? 'not known', 'num']] : []),
      ]} />`}<//>
    <${Twins} lines=${['waterclock dead-letters list' + (query.code ? ' --code ' + quoted(query.code) : ''),
      'waterclock rejected list', 'waterclock endpoints list', 'waterclock channels list',
      kcatReads(who, 'dead-letter'), kcatReads(who, 'rejected')]} /></article>`;
}
