// Deliveries: what failed, and why?
import {html} from '../vendor/htm-preact.js';
import {query as queryOf} from '../api.js';
import {At} from '../time.js';
import {A, Loaded, Table, ToTrigger, Twins, quoted, useData} from '../parts.js';

export function Deliveries({query, who}) {
  const letters = useData('v1/dead-letters' + queryOf({code: query.code, channel: query.channel, limit: 50}), 15000);
  const refused = useData('v1/rejected?limit=20', 15000);
  const channels = useData('v1/channels');
  const operates = who.rights.includes('operate');
  const endpoints = useData(operates ? 'v1/endpoints' : '', 10000);
  return html`<article><h1>Deliveries</h1>
    <h2>Dead letters${query.code ? ` with code ${query.code}` : ''}</h2>
    ${query.code ? html`<p><${A} to="deliveries">All codes<//></p>` : ''}
    <${Loaded} of=${letters}>${({items}) => html`<${Table} caption="The newest first" rows=${items} none="None."
      rowKey=${(l) => l.partition + '/' + l.offset} columns=${[
        ['Trigger', (l) => html`<${ToTrigger} id=${l.trigger_id} />`], ['Code', (l) => l.code],
        ['Detail', (l) => l.detail || ''], ['Channel', (l) => l.channel], ['Attempts', (l) => l.attempts, 'num'],
        ['Failed', (l) => html`<${At} at=${l.failed_at} />`], ['Status', (l) => l.status],
      ]} />`}<//>
    <h2>Refused commands</h2>
    <${Loaded} of=${refused}>${({items}) => html`<${Table} caption="The newest first" rows=${items} none="None."
      rowKey=${(c) => c.source} columns=${[
        ['Trigger', (c) => (c.trigger_id ? html`<${ToTrigger} id=${c.trigger_id} />` : 'no key')],
        ['Code', (c) => c.code], ['Field', (c) => c.field || ''], ['What to write instead', (c) => c.detail || ''],
        ['At', (c) => html`<${At} at=${c.at} />`], ['Record', (c) => html`<code>${c.source}</code>`],
      ]} />`}<//>
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
        ['Topic', (c) => html`<code>${c.topic}</code>`], ['Partitions', (c) => c.partitions, 'num'],
      ]} />`}<//>
    <${Twins} lines=${['waterclock dead-letters list' + (query.code ? ' --code ' + quoted(query.code) : ''),
      'waterclock rejected list', 'waterclock endpoints list', 'waterclock channels list']} /></article>`;
}
