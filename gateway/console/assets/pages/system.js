// System: who owns what, by which rules, and who did what?
import {html, useState} from '../vendor/htm-preact.js';
import {query as queryOf} from '../api.js';
import {inZone, ownZone, took} from '../time.js';
import {
  A, Field, Loaded, More, Table, ToTrigger, Twins, after, curl, go, kcatReads, none, others, partsOf, quoted, tenants,
  useData, useList,
} from '../parts.js';
import {ToRunbook} from './runbook.js';

// Settings shows first what differs from the defaults.
function Settings({items}) {
  const table = (caption, rows, none) => html`<${Table} caption=${caption} rows=${rows} none=${none}
    rowKey=${(s) => s.key} columns=${[['Setting', (s) => html`<code>${s.key}</code>`], ['Value', (s) => s.value],
      ['Set by', (s) => s.source]]} />`;
  return html`${table('Of the instance that answers, where they differ from the defaults',
    items.filter((s) => s.source !== 'default'), 'All are the defaults.')}
    <details><summary>The defaults</summary>
      ${table('Settings that nobody has changed', items.filter((s) => s.source === 'default'))}</details>`;
}

const mostZones = 8; // that a change of clocks names

// zonesOf names zones, the own one first.
function zonesOf({zones}) {
  const all = [...zones].sort((a, b) => (b === ownZone()) - (a === ownZone()));
  const more = all.length - mostZones;
  return all.slice(0, mostZones).join(', ') + (more > 0 ? ` and ${more} more` : '');
}

// shiftOf says how a change moves clocks.
const shiftOf = ({shift_seconds: s}) => `${s < 0 ? 'back' : 'forward'} by ${took(Math.abs(s) * 1000)}`;

const Clocks = ({changes}) => html`<h3>Clocks change within 14 days</h3>${changes.length === 0 ?
  html`<p class="none">In no zone.</p>` : html`<ul id="clocks">${changes.map((c) => html`
    <li>${`${inZone(c.at)}: ${shiftOf(c)} in ${zonesOf(c)}`}</li>`)}</ul>`}`;

const full = 20; // acts of a page

// fields are the filters of who did what: name, text, example, and flag of the command line.
const fields = [
  ['actor', 'Who'], ['verb', 'What', 'cancel'], ['trigger', 'Trigger', '', 'key'], ['tenant', 'By callers of tenant'],
  ['from', 'From', '2027-01-31T09:00:00Z'], ['to', 'Before', '2027-01-31T09:00:00Z'],
];

const flags = (filters) => fields.filter(([name]) => filters[name])
  .map(([name, , , flag]) => ` --${flag || name} ${quoted(filters[name])}`).join('');

// Done lists who did what. Its filters stand in the address; a page that is opened with any shows it first.
function Done({query, path, again, who}) {
  const acts = useList(`${path}#${again}`, full, 10000);
  const submit = (e) => {
    e.preventDefault();
    go('system' + queryOf(Object.fromEntries(new FormData(e.currentTarget))));
  };
  return html`<section><h2>Who did what</h2>
    <form class="filters" aria-label="Of who did what" onSubmit=${submit}>
      ${fields.map(([name, text, example]) => html`<${Field} name=${name} text=${text} example=${example}
        value=${query[name] || ''} />`)}
      <button class="act">List</button></form>
    ${fields.some(([name]) => query[name]) ? html`<p><${A} to="system">All acts<//></p>` : ''}
    <${Loaded} of=${acts.first}>${() => html`<${Table} caption="The newest acts over HTTP" rows=${acts.items}
      none=${none(acts, fields.some(([name]) => query[name]) ? 'None matches.' : 'Nobody has done anything yet.')}
      goesOn=${after(acts.cursor)} rowKey=${JSON.stringify} columns=${[
        ['At', (a) => inZone(a.at)], ['Who', (a) => [(a.actor || 'no log-in') +
          (others(a.tenant, who) ? ` of tenant ${a.tenant}` : ''), a.role, a.address].join(', ')],
        ['Act', (a) => a.verb],
        ['Trigger', (a) => (a.trigger ? html`<${ToTrigger} ...${partsOf(a.trigger)} who=${who} />` :
          a.target || '')],
        ...tenants(acts.items, who, (a) => (a.trigger ? partsOf(a.trigger).tenant : '')),
        ['Note', (a) => a.note || ''],
        ['Status', (a) => html`<span class=${a.status < 400 ? 'good' : 'bad'}>${a.status}</span>`, 'num'],
      ]} /><${More} of=${acts} />`}<//></section>`;
}

export function System({query, again, who}) {
  const operates = who.rights.includes('operate');
  const partitions = useData(operates ? 'v1/partitions?fresh=false' : '', 3000);
  const tz = useData('v1/tzdata');
  const calendars = useData('v1/calendars');
  const settings = useData(operates ? 'v1/settings' : '');
  const filters = Object.fromEntries(fields.map(([name]) => [name, query[name]]).filter(([, value]) => value));
  const [first] = useState(Object.keys(filters).length > 0); // it stays where it is while somebody filters
  const path = 'v1/audit' + queryOf({...filters, limit: full});
  const done = operates ? html`<${Done} query=${query} path=${path} again=${again} who=${who} key="done" />` : '';
  return html`<article><h1>System</h1>
    ${first ? done : ''}
    <h2>Partitions</h2>
    ${operates ? '' : html`<p>Only an operator sees the partitions. <${A} to="./">Now<//> says whether they fire.</p>`}
    ${operates ? html`<${Loaded} of=${partitions}>${({items}) => html`<${Table} caption="One owner each" rows=${items}
      rowKey=${(p) => p.partition} columns=${[
        ['Partition', (p) => p.partition, 'num'],
        ['State', (p) => (p.ready ? html`<span class="good">fires</span>` :
          html`<span class="bad">${p.refused || p.doing || 'no owner answers'}</span>`)],
        ['Owner', (p) => p.owner || 'none'], ['Term', (p) => p.term, 'num'],
        ['Pending', (p) => p.pending, 'num'], ['Commands to read', (p) => p.commands_lag ?? 'not known', 'num'],
        ['Overdue, s', (p) => p.oldest_overdue_seconds, 'num'],
        ['Restored', (p) => (p.restore_total ? `${p.restored} of ${p.restore_total}` : ''), 'num'],
      ]} />`}<//>` : ''}
    <h2>Time zones</h2><p><${ToRunbook} entry="clocks-change">What to do when clocks change<//></p>
    <${Loaded} of=${tz}>${(d) => html`<dl class="facts">
      <dt>In force</dt><dd>${d.active.label}, ${d.active.zones} zones</dd>
      <dt>In this program</dt><dd>${d.embedded.label}${d.ahead ? html` <span class="warn">(newer:
        put it in force with <code>waterclock tzdata apply</code>)</span>` : ''}</dd></dl>
      ${(d.changes || []).length ? html`<ul>${d.changes.map((c) => html`
        <li>${c.zone}: ${c.what}, from ${inZone(c.from)}</li>`)}</ul>` : ''}
      <${Clocks} changes=${d.clock_changes || []} />`}<//>
    <h2>Calendars</h2>
    <${Loaded} of=${calendars}>${({items}) => html`<${Table} caption="Named sets of days" rows=${items} none="None."
      rowKey=${(c) => `${c.tenant || ''}/${c.name}`} columns=${[
        ['Name', (c) => c.name + (c.tenant ? ` of tenant ${c.tenant}` : '')],
        ['Days', (c) => c.dates, 'num'], ['First', (c) => c.first], ['Last', (c) => c.last],
      ]} />`}<//>
    ${operates ? html`<h2>Settings</h2>
      <${Loaded} of=${settings}>${({items}) => html`<${Settings} items=${items} />`}<//>` : ''}
    ${first ? '' : done}
    <${Twins} lines=${[
      ...(operates ? [curl(who, 'v1/partitions'), `waterclock audit -n ${full}${flags(filters)}`, curl(who, path),
        curl(who, 'v1/settings'), kcatReads(who, 'audit')] : []),
      'waterclock tzdata status', curl(who, 'v1/tzdata'), 'waterclock calendar list',
    ]} /></article>`;
}
