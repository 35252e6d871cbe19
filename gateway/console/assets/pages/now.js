// Now: does it fire, and what is not well?
import {html, useEffect, useRef, useState} from '../vendor/htm-preact.js';
import {Bars} from '../bars.js';
import {Facts} from '../facts.js';
import {useHeld} from '../hold.js';
import {useLive} from '../live.js';
import {inZone, took} from '../time.js';
import {
  A, Items, Line, Loaded, NoHistory, Table, Twins, curl, kcatReads, silence, triggersOfChannel, useData, visible,
} from '../parts.js';
import {ToRunbook} from './runbook.js';

const every = 2000;

// idle says how many partitions do not fire.
const idle = ({ready, partitions: all}) =>
  `${all - ready} of ${all} partitions ${all - ready === 1 ? 'does' : 'do'} not fire.`;

// A channel has a backlog if more than 1,000 of its due events wait, and more than ten seconds' worth by the mean of
// the last hour, and not fewer from reading to reading: three readings, ten seconds apart. Workers commit about once a
// second, so on a busy channel some always wait. Its due topic refuses records if two readings in a row say so: one
// that is just being made does for a moment.
const mostWaiting = (fires = 0) => Math.max(1000, fires / 360);
const readings = 3;

// useUnwell are the channels that have a backlog, those whose due topic refuses records, and of both those of which it
// is not known yet.
function useUnwell({data}, late) {
  const kept = useRef({read: []}); // the last readings, by channel
  if (!data) return {stuck: [], refusing: [], many: [], off: []};
  if (kept.current.data !== data) {
    const now = Object.fromEntries(data.items.map((c) => [c.name, c]));
    kept.current = {data, read: [...kept.current.read, now].slice(-readings)};
  }
  const {read} = kept.current;
  const at = (i, {name}) => (read[i] && read[i][name]) || {};
  const shrinks = (c) => read.some((_, i) => i > 0 && !(at(i, c).waiting >= at(i - 1, c).waiting));
  const fires = (c) => ((late && late.channels[c.name]) || {}).fires;
  const many = data.items.filter((c) => c.waiting > mostWaiting(fires(c)) && !shrinks(c));
  const off = data.items.filter((c) => c.put_off);
  const refusing = off.filter((c) => at(read.length - 2, c).put_off);
  return {
    stuck: read.length < readings ? [] : many, many: read.length < readings ? many : [],
    refusing, off: off.filter((c) => !refusing.includes(c)),
  };
}

// unwell is what somebody should see to, the worst first: how bad, what, of what, the page about it, what to do. The
// partitions are read, and the stream says the rest sooner.
function unwell(partitions, live, endpoints, {refusing, stuck}) {
  const all = [];
  for (const p of partitions) {
    const name = `Partition ${p.partition}`;
    if (!p.ready) {
      all.push(['bad', `${name} does not fire: ${p.refused || p.doing || 'no owner answers'}.`, name, 'system',
        p.refused ? 'waterclockpartitionrefused' : 'waterclockpartitionsmissing']);
    } else if (p.oldest_overdue_seconds > 5) {
      all.push(['bad', `${name} is late: the oldest has waited ${took(p.oldest_overdue_seconds * 1000)}.`, name,
        'system', 'waterclockoverdue']);
    }
    if (p.pending_limit && p.pending > 0.8 * p.pending_limit) {
      all.push(['warn', p.pending < p.pending_limit ?
        `${name} is nearly full: it holds ${p.pending} of ${p.pending_limit} triggers.` :
        `${name} is full: it holds ${p.pending} triggers and refuses more.`, name, 'system',
        'waterclockpendingnearlimit']);
    }
    if (p.commands_lag > 10000) {
      all.push(['warn', `${name} has ${p.commands_lag} commands to read.`, name, 'system', 'waterclocklag']);
    }
  }
  if (live && !all.some(([kind]) => kind === 'bad')) {
    if (live.ready < live.partitions) all.unshift(['bad', idle(live), '', 'system', 'waterclockpartitionsmissing']);
    else if (live.oldest_overdue_seconds > 5) {
      all.unshift(['bad', `The oldest has waited ${took(live.oldest_overdue_seconds * 1000)}.`, '', 'system',
        'waterclockoverdue']);
    }
  }
  for (const e of endpoints) {
    if (e.state !== 'closed') {
      all.push(['warn', `Endpoint ${e.origin} is ${e.state}: ${e.last_code || 'its calls fail'}.`, e.tenant + e.origin,
        'deliveries', 'waterclockbreakeropen']);
    }
  }
  for (const c of refusing) {
    all.push(['warn', `Channel ${c.name}: its due topic has refused records, so its due events wait.`, c.name,
      'deliveries', 'a-due-topic-refuses']);
  }
  for (const c of stuck) {
    const waiting = c.waiting.toLocaleString('en');
    all.push(['warn', `Channel ${c.name}: ${waiting} due events wait, and they do not get fewer.`, c.name, 'deliveries',
      'waterclocknobodyanswers']);
  }
  return all;
}

// wellSo says what is known if nothing is unwell, and whether that is all that should be.
function wellSo(endpoints, channels, {many, off}) {
  const fires = 'Every partition fires on time.';
  if (endpoints.error && !endpoints.data) return [`${fires} Of the endpoints nothing is known.`];
  if (channels.error && !channels.data) return [`${fires} Of the channels nothing is known.`];
  if (!endpoints.data || !channels.data) return ['Reading…'];
  const named = (all) => all.map((c) => `channel ${c.name}`).join(', ');
  if (off.length) {
    return [`${fires} The due topic of ${named(off)} has refused records: ` +
      'whether it still does is known in ten seconds.'];
  }
  return many.length ? [`${fires} Many due events wait on ${named(many)}: ` +
    'whether they get fewer is known within half a minute.'] : ['Healthy: every partition fires on time.', true];
}

const sum = (list, name) => list.reduce((n, p) => n + (p[name] || 0), 0);

// partly is a figure over the partitions that answer: what it is without the silent ones.
const partly = (text, silent, all) => (silent === 0 ? text : silent < all ? `at least ${text}` : 'not known');

// nothing says that no due event was counted, or that this does not say much.
const nothing = (late, span) => (late.incomplete ? `What has fired in the last ${span} is not known.` :
  `Nothing has fired in the last ${span}.`);

// health is what somebody learns who does not see the partitions.
function health(live, late, cut) {
  if (cut || (late.error && !live)) return 'Not known: the server does not answer.';
  if (!live && !late.data) return 'Reading…';
  if (live && live.ready < live.partitions) return idle(live);
  const silent = live ? live.silent_partitions : late.data.silent_partitions || [];
  if (silent.length) return `Not known: ${silence(silent)}.`;
  if (live && live.late) return 'Late: what is due has not gone out.';
  return live ? 'Healthy: every partition fires on time.' : 'Every partition answers.';
}

// Now takes its figures from the stream, and reads again what the stream does not say. While there is no stream it
// reads all of it every two seconds.
export function Now({who}) {
  const [last, set] = useState(); // state of the stream
  const [cut, lose] = useState(false); // the stream has ended, and nothing was read since
  const operates = who.rights.includes('operate');
  const connected = 'connected' === useLive((m) => {
    if (m.kind === 'state') {
      const late = m.data.oldest_overdue_seconds > 5;
      if (!last || m.data.missed || m.data.ready !== last.ready || late) partitions.reload();
      set(m.data);
      lose(false);
    }
    if (m.kind === 'cut') { set(undefined); lose(true); }
  });
  const live = connected ? last : undefined; // a stream may end without a word: another tab reads it
  const partitions = useData(operates ? 'v1/partitions?fresh=false' : '', connected ? 10000 : every);
  const seen = partitions.data && partitions.data.items.filter((p) => p.ready).length;
  const told = live && live.ready;
  useEffect(() => { // what was read when the stream told of a change may be a second older than that
    const timer = live && partitions.data && told !== seen ? setTimeout(partitions.reload, 1500) : 0;
    return () => clearTimeout(timer);
  }, [told, seen]);
  const endpoints = useData(operates ? 'v1/endpoints?fresh=false' : '', 10000);
  const channels = useData(operates ? 'v1/channels' : '', 10000);
  const letters = useData(who.history ? 'v1/dead-letters?group_by=code&fresh=false' : '', 10000);
  const next = useData('v1/forecast?bucket=1m&n=10', 10000);
  const late = useData('v1/lateness?window=1h', connected ? 15000 : 5000);
  const of = useUnwell(channels, late.data);
  const waits = channels.data ? channels.data.items.filter((c) => c.waiting !== undefined) : [];
  const counted = useHeld(waits.length > 0, (shown) => shown, (shown, next) => (shown === next ? undefined : {}));
  useEffect(() => lose(false), [partitions.data, late.data]);
  return html`<article><h1>Now</h1>
    ${operates ? '' : html`<p class="sentence" id="health">${health(live, late, cut)}</p>`}
    ${operates ? html`<${Loaded} of=${partitions}>${({items}) => {
      const bad = unwell(items, live, (endpoints.data && endpoints.data.items) || [], of);
      const known = !partitions.error && !cut;
      const [well, good] = wellSo(endpoints, channels, of);
      const overdue = live ? live.oldest_overdue_seconds :
        Math.max(0, ...items.map((p) => p.oldest_overdue_seconds || 0));
      const pending = live ? live.pending : sum(items, 'pending');
      const lag = live ? live.commands_lag : sum(items, 'commands_lag');
      const ready = live ? live.ready : items.filter((p) => p.ready).length;
      const silent = live ? live.silent_partitions.length :
        items.filter((p) => !p.ready && !p.doing && !p.refused).length;
      const uncounted = live ? silent : items.filter((p) => p.commands_lag === undefined).length;
      const figure = (text, lost = silent) => html`<b>${partly(text, lost, items.length)}</b>`;
      return html`
        <p class="sentence ${!known || bad.length ? 'bad' : good ? 'good' : ''}" id="health">${
          !known ? 'Not known. What follows is from before.' :
            bad.length ? `${bad.length} ${bad.length === 1 ? 'thing is' : 'things are'} not well.` : visible(well)}</p>
        <${Items} rows=${bad} rowKey=${([, , of, to, entry]) => [of, to, entry].join(' ')}
          classOf=${([kind]) => kind} item=${([, text, , to, entry]) => html`<${A} to=${to}>${visible(text)}<//>
          ${' '}<${ToRunbook} entry=${entry} />`} />
        <ul class="figures">
          <li>${figure(pending.toLocaleString('en'))}<${A} to="system">pending<//></li>
          <li>${figure(took(overdue * 1000))}<${A} to="system">oldest overdue<//></li>
          <li>${figure(lag.toLocaleString('en'), uncounted)}<${A} to="system">commands not read yet<//></li>
          ${counted ? html`<li><b>${sum(waits, 'waiting').toLocaleString('en')}</b>
            <${A} to="deliveries">due events not read yet<//></li>` : ''}
          <li><b>${ready} of ${items.length}</b><${A} to="system">partitions fire<//></li>
          ${next.data ? html`<li>${figure(sum(next.data.items, 'due').toLocaleString('en'),
            next.data.silent_partitions.length)}
            <${A} to="forecast">due in ten minutes<//></li>` : ''}
        </ul>`;
    }}<//>` : ''}
    <h2>Lateness</h2>
    <p id="minute">${live ? (live.fires ?
      `In the last minute ${live.incomplete ? 'at least ' : ''}${live.fires.toLocaleString('en')} due event${
        live.fires === 1 ? '' : 's'}, 99 of 100 at most ${took(live.p99_ms)} late.` : nothing(live, 'minute')) :
      '\u00a0'}</p>
    <${Loaded} of=${late}>${(l) => html`
      <p>${l.fires === 0 ? nothing(l, 'hour') :
        `In the last hour ${l.fires.toLocaleString('en')} due event${l.fires === 1 ? '' : 's'}: half were at most ` +
        `${took(l.p50_ms)} late, 99 of 100 at most ${took(l.p99_ms)}, the latest ${took(l.max_ms)}.`}</p>
      ${l.since ? html`<p class="far">Counted since ${inZone(l.since)}.</p>` : ''}
      <${Line} kind="fault" role="alert" text=${(l.silent_partitions || []).length ?
        `Not all are counted: ${silence(l.silent_partitions)}.` : ''} />
      <${Line} kind="warn" text=${l.incomplete ? `${operates ? 'By channel not' : 'Not'} all are counted: ` +
        'too many tenants and channels fired at once to tell them apart.' : ''} />
      <${Bars} items=${l.items} value=${(i) => i.p99_ms || 0}
        label="The 99th percentile, ms, by minute" unit=${took}
        says=${(i) => (i.fires ? `${i.fires} fired, p99 ${took(i.p99_ms)}` : 'nothing fired')} />
      <details><summary>As a table</summary><${Table} caption="By channel, the last hour" none="None."
        rows=${Object.entries(l.channels)} rowKey=${([name]) => name} columns=${[
          ['Channel', ([name]) => html`<${A} to=${triggersOfChannel(name)}>${visible(name)}<//>`],
          ['Due events', ([, c]) => c.fires, 'num'], ['p50, ms', ([, c]) => c.p50_ms ?? '', 'num'],
          ['p99, ms', ([, c]) => c.p99_ms ?? '', 'num'], ['Latest, ms', ([, c]) => c.max_ms ?? '', 'num']]} />
        <${Table} caption="By minute" goesOn="before" rows=${l.items.filter((i) => i.fires)} rowKey=${(i) => i.at}
          columns=${[['From', (i) => inZone(i.at)], ['Due events', (i) => i.fires, 'num'],
            ['p50, ms', (i) => i.p50_ms ?? '', 'num'], ['p99, ms', (i) => i.p99_ms ?? '', 'num']]} /></details>`}<//>
    <h2>Dead letters by cause</h2>
    ${who.history ? html`<${Loaded} of=${letters}>${({groups, other, next_cursor: more}) => html`<${Table}
      caption="Dead letters by code" rows=${groups}
      none=${more ? 'None so far. There are too many to count them here.' : 'None: nothing was given up.'}
      rowKey=${(g) => g.value} columns=${[
        ['Code', (g) => html`<${A} to=${'deliveries?code=' + encodeURIComponent(g.value)}>${visible(g.value)}<//>`],
        ['Letters', (g) => html`${more ? 'at least ' : ''}<${A} aria-label=${`${g.count} with code ${visible(g.value)}`}
          to=${'deliveries?code=' + encodeURIComponent(g.value)}>${g.count}<//>`, 'num'],
      ]} /><${Line} text=${other ? `${more ? 'At least ' : ''}${other} have further codes.` : ''} />`}<//>` :
      html`<${NoHistory} />`}
    <${Facts} who=${who} />
    <${Twins} lines=${[curl(who, operates ? 'v1/partitions' : 'v1/lateness'), 'waterclock live',
      'waterclock lateness', 'waterclock doctor', 'waterclock dead-letters list --group-by code',
      kcatReads(who, 'events')]} /></article>`;
}
