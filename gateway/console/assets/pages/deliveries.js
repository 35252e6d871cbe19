// Deliveries: what failed, and why?
import {html} from '../vendor/htm-preact.js';
import {query as queryOf} from '../api.js';
import {At, inZone} from '../time.js';
import {Redrive} from './acts.js';
import {ToRunbook} from './runbook.js';
import {
  A, Items, Line, Loaded, More, NoHistory, Table, ToTrigger, Twins, after, curl, kcatReads, none, others, quoted,
  tenants, triggersOfChannel, useData, useList, visible,
} from '../parts.js';

const full = 50; // rows of a page

const mostCodes = 10; // that are named in short

// Code is how many items have a code, a link to them, and the newest as an example.
function Code({of: {value, count, sample}, least, to, who}) {
  const {trigger_id: id, tenant, detail} = sample || {};
  const all = to + encodeURIComponent(value);
  const n = count.toLocaleString('en');
  return html`${least ? 'at least ' : ''}
    <${A} to=${all} aria-label=${`${n} with ${visible(value)}`}><b>${n}</b><//>${' '}
    <${A} to=${all}>${visible(value)}<//>${id ? html`, for example${' '}
    <${ToTrigger} id=${id} tenant=${tenant} who=${who} />` : ''}${detail ? `: ${visible(detail)}` : ''}`;
}

// Codes lists the most frequent codes. Where an example leads stays as it was while it is held.
const Codes = ({of: {groups = [], other, next_cursor: more}, to, who, none}) => html`
  <${Items} rows=${groups.slice(0, mostCodes)} rowKey=${(g) => g.value} goesOn=${after(groups.length > mostCodes)}
    none=${none && (more ? moreToCount : none)} stays=${(was, now) => ({...now, sample: was.sample})}
    item=${(g) => html`<${Code} of=${g} least=${more} to=${to} who=${who} />`} />
    <${Line} text=${groups.length > mostCodes || other ? 'There are further codes.' : ''} />`;

const moreToCount = 'None in what was counted. There is more.';

const total = ({groups = [], other = 0}) => groups.reduce((n, g) => n + g.count, other);

// Short shows a read that is also shown below, where a failure is said.
const Short = ({of, children}) => (of.data === undefined ?
  html`<p class="wait">${of.error ? 'Not known.' : 'Reading…'}</p>` : children(of.data));

// InShort says what is not well, before the lists of all.
function InShort({who, endpoints, channels}) {
  const operates = who.rights.includes('operate');
  const letters = useData(who.history ? 'v1/dead-letters?group_by=code' : '', 15000);
  const refused = useData('v1/rejected?group_by=code', 60000);
  const settled = !who.history || letters.data || letters.error; // so that nothing moves down what is below
  return html`<section class="short"><h2>In short</h2>
    ${operates ? html`<h3>Endpoints whose breaker is not closed</h3>
      <${Short} of=${endpoints}>${({items}) => {
        const open = items.filter((e) => e.state !== 'closed');
        return html`<${Items} rows=${open} rowKey=${(e) => e.tenant + e.origin} none="None."
          item=${(e) => html`
          <${A} to=${lettersTo(e)}>${visible(e.origin)}<//>${ofTenant(e, who)} is
          ${' '}<span class="bad">${e.state}</span>${e.last_code ? `: ${visible(e.last_code)}` : ''}.${' '}
          <${ToRunbook} entry="waterclockbreakeropen" />`} />`;
      }}<//>
      <h3>Channels on which due events wait</h3>
      <${Short} of=${channels}>${({items}) => {
        const waits = items.filter((c) => c.waiting > 0 || c.put_off)
          .sort((a, b) => (b.waiting || 0) - (a.waiting || 0));
        return html`<${Items} rows=${waits} rowKey=${(c) => c.name} none=${
          items.some((c) => c.waiting !== undefined) ? 'None.' : 'Not known: no worker has read anything.'}
          item=${(c) => html`
          <b>${c.waiting > 0 ? c.waiting.toLocaleString('en') : 'Some'}</b> on${' '}
          <${A} to=${triggersOfChannel(c.name)}>${c.name}<//>${c.put_off ? html`,${' '}
          whose due topic has refused records. <${ToRunbook} entry="a-due-topic-refuses" />` : ''}`} />`;
      }}<//>` : ''}
    <h3>Dead letters by code</h3>
    ${who.history ? html`<${Loaded} of=${letters}>${(l) => html`<${Codes} of=${l} to="deliveries?code=" who=${who}
      none="None is open." />`}<//>` : html`<${NoHistory} />`}
    <h3>Refused commands by code</h3>
    ${!settled ? html`<p class="wait">Reading…</p>` : html`<${Loaded} of=${refused}>${(r) => html`
      <p class=${total(r) ? '' : 'none'}>${total(r) ? `By cause, of the newest ${total(r).toLocaleString('en')}:` :
        r.next_cursor ? moreToCount : 'None.'}</p>
      <${Codes} of=${r} to="deliveries?refused=" who=${who} />`}<//>`}</section>`;
}

// which says of a heading what its list is filtered by.
const which = (filters) => filters.filter(([, value]) => value)
  .map(([of, value]) => ` ${of} ${visible(value)}`).join(',');

// flags are those of a command, of what is set.
const flags = (of) => Object.entries(of).filter(([, value]) => value)
  .map(([name, value]) => ` --${name} ${quoted(value)}`).join('');

const ofTenant = ({tenant}, who) => (others(tenant, who) ? ` of tenant ${tenant}` : '');

// lettersTo is the address of the dead letters of an endpoint.
const lettersTo = (e) => 'deliveries' + queryOf({endpoint: e.origin, tenant: e.tenant});

export function Deliveries({query, who, say}) {
  const {code, channel, endpoint, tenant, refused: refusal} = query;
  const ofSome = code || channel || endpoint || tenant;
  const lettersPath = 'v1/dead-letters' + queryOf({code, channel, endpoint, tenant, limit: full});
  const refusedPath = 'v1/rejected' + queryOf({code: refusal, limit: full});
  const letters = useList(who.history ? lettersPath : '', full, 15000);
  const refused = useList(refusedPath, full, 15000);
  const operates = who.rights.includes('operate');
  const channels = useData('v1/channels', operates ? 10000 : 0);
  const endpoints = useData(operates ? 'v1/endpoints?fresh=false' : '', 10000);
  const ofLetters = html`<section key="letters">
    <h2>Dead letters${which([
      ['with code', code], ['on channel', channel], ['to', endpoint], ['of tenant', tenant],
    ])}</h2>
    ${ofSome ? html`<p><${A} to="deliveries">${ofSome === code && !channel && !endpoint && !tenant ? 'All codes' :
      'All dead letters'}<//></p>` : ''}
    <p><${ToRunbook} entry="waterclockdeadletters">What to do about dead letters<//></p>
    ${who.history ? html`<${Loaded} of=${letters.first}>${() => html`<${Table} caption="The newest first"
      goesOn=${after(letters.cursor)}
      rows=${letters.items} none=${none(letters, 'None is open.')} rowKey=${(l) => l.partition + '/' + l.offset}
      columns=${[
        ['Trigger', (l) => html`<${ToTrigger} id=${l.trigger_id} tenant=${l.tenant} who=${who} />`],
        ...tenants(letters.items, who),
        ['Status', (l) => html`${l.status} <${Redrive} of=${l} who=${who}
          done=${(text) => { say(text); letters.first.reload(); }} />`],
        ['Code', (l) => l.code], ['Detail', (l) => l.detail || ''], ['Channel', (l) => l.channel],
        ['Endpoint', (l) => l.endpoint || ''],
        ['Attempts', (l) => l.attempts, 'num'],
        ['Scheduled', (l) => (l.scheduled_at ? inZone(l.scheduled_at) : '')],
        ['Failed', (l) => html`<${At} at=${l.failed_at} />`],
      ]} /><${More} of=${letters} />`}<//>` : html`<${NoHistory} />`}</section>`;
  const ofRefused = html`<section key="refused">
    <h2>Refused commands${which([['with code', refusal]])}</h2>
    ${refusal ? html`<p><${A} to="deliveries">All codes<//></p>` : ''}
    <p><${ToRunbook} entry="waterclockrefusals">What to do about refused commands<//></p>
    <${Loaded} of=${refused.first}>${() => html`
      <${Table} caption="Refused commands, the newest first" rows=${refused.items} none=${none(refused, 'None.')}
      goesOn=${after(refused.cursor)} rowKey=${(c) => c.source} columns=${[
        ['Trigger', (c) => (c.trigger_id ? html`<${ToTrigger} id=${c.trigger_id} tenant=${c.tenant} who=${who} />` :
          'no key')],
        ...tenants(refused.items, who),
        ['Code', (c) => c.code], ['Field', (c) => c.field || ''],
        ['What to write instead', (c) => c.detail || '', 'text'],
        ['At', (c) => html`<${At} at=${c.at} />`], ['Record', (c) => html`<code>${c.source}</code>`],
      ]} /><${More} of=${refused} />`}<//></section>`;
  return html`<article><h1>Deliveries</h1>
    ${ofSome || refusal ? '' : html`<${InShort} who=${who} endpoints=${endpoints}
      channels=${channels} />`}
    ${refusal ? [ofRefused, ofLetters] : [ofLetters, ofRefused]}
    ${operates ? html`<h2>Endpoints</h2>
      <${Loaded} of=${endpoints}>${({items}) => html`${items.length ? html`<p>Answered and failed calls count
        since the workers know the endpoint, each try by itself. A refusal, such as 404, is an answer. What was given
        up is a dead letter.</p>` : ''}
        <${Table} caption="Origins that callbacks go to" rows=${items}
        none="None was called yet." rowKey=${(e) => e.tenant + e.origin} columns=${[
          ['Origin', (e) => e.origin], ['Tenant', (e) => e.tenant],
          ['Breaker', (e) => html`<span class=${e.state === 'closed' ? 'good' : 'bad'}>${e.state}</span>`],
          ['In flight', (e) => e.in_flight, 'num'], ['Answered calls', (e) => e.ok, 'num'],
          ['Failed calls', (e) => e.failed || 0, 'num'],
          ['Given up', (e) => (who.history ? html`<${A} to=${lettersTo(e)}
            aria-label=${`dead letters to ${visible(e.origin)}` + ofTenant(e, who)}>dead letters<//>` : '')],
          ['Last', (e) => e.last_code || ''],
        ]} />`}<//>` : ''}
    <h2>Channels</h2>
    <${Loaded} of=${channels}>${({items}) => html`<${Table} caption="Where due events go" rows=${items} none="None."
      rowKey=${(c) => c.name} columns=${[
        ['Channel', (c) => html`<${A} to=${triggersOfChannel(c.name)}>${c.name}<//>`],
        ['Topic', (c) => html`<code>${c.topic}</code>`], ['Partitions', (c) => c.partitions || 'no topic yet', 'num'],
        ...(items.some((c) => c.waiting !== undefined) ?
          [['Not read yet', (c) => c.waiting ?? 'not known', 'num']] : []),
      ]} />`}<//>
    <${Twins} lines=${['waterclock dead-letters list --group-by code',
      'waterclock dead-letters list' + flags({code, channel, endpoint, tenant}),
      'waterclock rejected list --group-by code', 'waterclock rejected list' + flags({code: refusal}),
      ...(operates ? ['waterclock endpoints list'] : []), 'waterclock channels list',
      ...(who.history ? [curl(who, lettersPath)] : []), curl(who, refusedPath),
      kcatReads(who, 'dead-letter'), kcatReads(who, 'rejected')]} /></article>`;
}
