// Trigger: what is it, when does it fire next, what happened, and why (not)?
import {html, useEffect, useRef, useState} from '../vendor/htm-preact.js';
import {ask, get, trigger} from '../api.js';
import {what} from '../facts.js';
import {useHeld} from '../hold.js';
import {useLive} from '../live.js';
import {At, NextOf, inZone, inZones, when} from '../time.js';
import {
  A, Became, Fault, Line, Loaded, More, NoHistory, State, Table, Twins, after, curl, kcatFinds, keyOf, none, ours,
  quoted, triggerPage, useData, useList, userPage, visible,
} from '../parts.js';
import {Acts, Redrive} from './acts.js';
import {ToRunbook} from './runbook.js';

const every = 2000;
const longest = 20000; // characters of a payload that are shown
const mostTags = 50;
const mostDates = 20;
const mostLetters = 10; // of a page
const ended = ['FIRED', 'FAILED', 'EXPIRED', 'CANCELLED']; // of these only what became of them is kept

// payloadIn cuts the payload out of the answer of :reveal, where it stands last, and spreads it over lines. Its numbers
// stay as they are written: a number that was read and written again may be another one.
function payloadIn(text) {
  const name = ',"payload":';
  const at = text.indexOf(name);
  if (at < 0) return JSON.parse(text).payload_base64 || 'none';
  let depth = 0;
  const line = (n) => '\n' + '  '.repeat(Math.min(depth += n, 50));
  return text.slice(at + name.length, text.lastIndexOf('}')).replace(
    /"(?:[^"\\]|\\.)*"|\{\s*\}|\[\s*\]|[{}[\]:,]/g, (part) => {
      switch (part) {
        case '{': case '[': return part + line(1);
        case '}': case ']': return line(-1) + part;
        case ',': return part + line(0);
        case ':': return ': ';
        default: return part.startsWith('"') ? JSON.stringify(JSON.parse(part)) : part;
      }
    });
}

// happened is what the note says while somebody is about to use something on the page. Nothing has happened if a
// sentence only counts the seconds on.
const happened = (shown, next, decides = (x) => x) => (JSON.stringify(shown) === JSON.stringify(next) ? undefined :
  JSON.stringify(decides(shown)) === JSON.stringify(decides(next)) ? {} : {text: 'Something happened to it.'});

export function Trigger({query, who, say}) {
  const id = query.id || '';
  const key = keyOf(who, id);
  const [rows, show] = useState([]); // the events that the page has rows of
  const connected = 'connected' === useLive((m) => {
    if (m.kind === 'fact' && m.data.trigger === key) { reload(); follow(); }
    if (m.kind === 'state' && (m.data.omitted || m.data.missed)) reload();
  });
  const state = useData(id && trigger(id, '?fresh=false&payload=false'), connected ? 0 : every);
  const one = query.occurrence ? '&occurrence=' + encodeURIComponent(query.occurrence) : '';
  const why = useData(id && trigger(id, '/explain?fresh=false') + one, connected ? 0 : every);
  const reload = () => { state.reload(); why.reload(); };
  // The page reads without the read barrier. After one's own act that may be too early, until one with it is answered.
  const acted = async () => {
    await Promise.allSettled([get(trigger(id, '?payload=false')), get(trigger(id, '/explain'))]);
    reload();
  };
  const soon = useRef();
  const follow = () => { // once more, when a history that was behind has the event
    clearTimeout(soon.current);
    soon.current = setTimeout(reload, 1000);
  };
  useEffect(() => { follow(); return () => clearTimeout(soon.current); }, [id]);
  useEffect(() => { // what the stream does not say, such as that it is overdue
    const timer = setInterval(() => connected && !document.hidden && reload(), 10000);
    return () => clearInterval(timer);
  }, [connected, id]);
  const gone = state.error && state.error.status === 404; // erased, or never registered
  useEffect(() => { if (gone) acted(); }, [gone]); // somebody may have registered it just now
  // All of this moves what is below it, so it is held, as rows are.
  const t = useHeld(gone ? null : state.data, (shown, next) => (shown === undefined ? next : shown), happened);
  const cause = useHeld({path: why.path, data: why.data}, (shown, next) => (shown.path === next.path && shown.data ?
    shown : next), (shown, next) => happened(shown, next, ({data: x}) => x && [x.code, x.evidence, x.history])).data;
  if (!id) {
    return html`<article><h1>Trigger</h1><p>No trigger is named. Write its key into the box above.</p></article>`;
  }
  return html`<article><div class="head"><h1>${visible(id)}</h1>
      ${t ? html`<${Acts} of=${t} who=${who} done=${(text) => { say(text); acted(); }} />` : ''}</div>
    ${one ? html`<p>Of occurrence ${visible(query.occurrence)}. <${A} to=${triggerPage(id)}>Of the trigger<//></p>` :
      ''}
    <${Loaded} of=${{...why, data: cause}}>${(x) => html`<p class="sentence" id="sentence">${x.sentence}</p>
      ${x.history === false ? html`<p class="warn">${who.history ?
        'The history does not answer: this is what its owner knows.' :
        'There is no history here: this is what its owner and the newest events know.'}</p>` : ''}
      ${x.evidence.length ? html`<details open><summary>Evidence</summary>
        <ul id="evidence">${x.evidence.map((e) => html`<li>${e.text} <span class="far">${e.source}${
          e.event_id ? html` · <${ToEvent} id=${e.event_id} rows=${rows} />` : ''}</span></li>`)}</ul>
      </details>` : ''}
      <p><${ToRunbook} entry="a-customer-got-nothing">If a customer got nothing<//></p>`}<//>
    ${t ? html`<${About} t=${t} who=${who} code=${one ? undefined : cause && cause.code} />` : ''}
    <${Loaded} of=${{error: gone || why.error ? undefined : state.error, data: null, reload: state.reload}}>
      ${() => ''}<//>
    ${t && (t.recurrence || t.include || t.next_fire_at) ? html`<${Next} t=${t} />` : ''}
    <${Happened} id=${id} who=${who} zone=${(t && t.timezone) || 'UTC'} shows=${show} occurrence=${query.occurrence}
      say=${(text) => { say(text); acted(); }} revision=${t ? t.updated_at : state.error ? '' : undefined} />
    <${Twins} lines=${[ours('explain', id, one && ` --occurrence ${quoted(query.occurrence)}`), ours('watch', id),
      curl(who, trigger(id, '/explain') + one.replace('&', '?')), kcatFinds(who, {trigger: key})]} /></article>`;
}

// givenAs says how the time of a one-shot was written. A local time has no Z.
function givenAs({delay, registered_fire_at: text = '', timezone: zone}) {
  if (delay) return `a delay of ${delay}`;
  return text && !text.endsWith('Z') ? `a local time: ${when(text, zone)}` : 'an instant';
}

// zoneOf is the zone of a trigger, and why it is that one. A rule without a zone reads as one in UTC.
function zoneOf(t, series) {
  const by = t.tzdata ? ` (tz database ${t.tzdata})` : '';
  if (t.timezone && t.follow_user) return `${t.timezone}, that of its user${by}`;
  if (t.timezone === 'UTC' && series) return `UTC: registered so, or the default${by}`;
  if (t.timezone) return `${t.timezone}, as it was registered or rezoned${by}`;
  return `UTC: ${series ? 'none was named' : t.delay ? 'a delay names no zone' : 'an instant names no zone'}`;
}

const onDays = {
  next_business_day: 'fires on the next business day', previous_business_day: 'fires on the business day before',
};

// datesOf lists dates and times, as many as a page has room for.
const datesOf = (all, zone) => all && all.length > 0 &&
  `${all.slice(0, mostDates).map((d) => visible(when(d, zone))).join(', ')} ${further(all, mostDates)}`;

// pairsOf lists names with values, likewise.
const pairsOf = (all, sign) => all.length > 0 && html`${all.slice(0, mostTags).map(([k, v]) => html`
  <code>${visible(k + sign + v)}</code> `)}${further(all, mostTags)}`;

// About shows what a trigger is. It is read without its payload: payload_hidden says whether it has one.
function About({t, who, code}) {
  const [shown, show] = useState(); // the payload, and of which revision
  const [failed, fail] = useState();
  const zone = t.timezone || 'UTC';
  const series = t.recurrence || t.include;
  const rows = [
    ['State', html`<${Became} state=${t.state} code=${code} />`],
    ['Next', html`<${NextOf} of=${t} />`],
    ['Rule', t.recurrence && html`<code>${t.recurrence}</code> from ${when(t.start, zone)}`],
    ['Given as', !series && givenAs(t)],
    ['Dates', datesOf(t.include, zone)], ['But not', datesOf(t.exclude, zone)],
    ['Until', t.until && visible(when(t.until, zone))],
    ['At most', t.count && `${t.count} time${t.count === 1 ? '' : 's'}`],
    ['Calendars', t.calendars && `${t.calendars.names.map(visible).join(', ')}: on their days it ${
      onDays[t.calendars.on] || 'does not fire'}`],
    ['Skipped', datesOf(t.skipped, zone)],
    ['Zone', zoneOf(t, series)],
    ['Clock changes', t.dst && [
      t.dst.gap && `in a gap: ${t.dst.gap}`, t.dst.overlap && `in an overlap: ${t.dst.overlap}`,
    ].filter(Boolean).join(', ')],
    ['Channel', html`<${A} to=${'triggers?channel=' + encodeURIComponent(t.channel)}>${t.channel}<//>`],
    ['User', t.user_id && html`<${A} to=${userPage(t.user_id)}>${visible(t.user_id)}<//>`],
    ['Tags', pairsOf(Object.entries(t.tags || {}), '=')], ['Headers', pairsOf(Object.entries(t.headers || {}), ': ')],
    ['Priority', t.priority], ['When missed', t.misfire], ['Expires after', t.expires_after], ['Jitter', t.jitter],
    ['Callback', t.callback && visible(t.callback.url)],
    ['Escalation', t.escalation &&
      t.escalation.map((s) => `${s.channel}${s.after ? ' after ' + s.after : ''}`).join(', then ')],
    ['Note', t.note && visible(t.note)], ['Revision', t.revision],
    ['Registered', html`<${At} at=${t.created_at} zone=${zone} />`],
    ['Changed', html`<${At} at=${t.updated_at} zone=${zone} />`],
  ];
  const reveal = async () => { // it is on record who reads it
    try {
      const {text, value} = await ask('POST', trigger(t.trigger_id, ':reveal'));
      show({text: payloadIn(text), revision: value.revision});
      fail();
    } catch (error) { fail(error); }
  };
  return html`<section><h2>What it is</h2>
    <dl class="facts">${rows.filter(([, v]) => v).map(([name, v]) => html`<dt>${name}</dt><dd>${v}</dd>`)}
      <dt>Payload</dt><dd>${!t.payload_hidden ?
        ended.includes(t.state) ? 'none is kept, because it has ended' : 'none' :
        !who.rights.includes('payloads') ? 'hidden: your roles may not read payloads' :
        shown ? html`<pre>${visible(shown.text.slice(0, longest))}</pre>${shown.text.length > longest ? html`
          <p class="warn">These are its first ${longest.toLocaleString('en')} characters of ${
            shown.text.length.toLocaleString('en')}.</p>` : ''}${
          shown.revision === t.revision ? '' :
            html`<p class="warn">It is that of revision ${shown.revision}.</p>`}` :
          html`<button type="button" onClick=${reveal}>Show the payload</button><${Fault} error=${failed} />`}</dd></dl>
    ${(t.live || []).length ? html`<h2>Under way</h2><ul>${t.live.map((l) => html`<li>
      ${l.kind.replaceAll('_', ' ')}: ${visible(when(l.occurrence, zone))}${
        l.attempt ? `, attempt ${l.attempt}` : ''}${
        l.at ? html`, <${At} at=${l.at} zone=${zone} />` : ''}</li>`)}</ul>` : ''}</section>`;
}

const mostLeftOut = 10; // rows of what is left out

// withLeftOut puts the first of what is left out in their places.
const withLeftOut = (items, left) => [...left.slice(0, mostLeftOut).map((o) => ({...o, out: true})), ...items]
  .sort((a, b) => Date.parse(a.at) - Date.parse(b.at));

function Next({t}) {
  const data = useData(trigger(t.trigger_id, '/occurrences?n=10&fresh=false') + '#' + t.updated_at + t.next_fire_at);
  return html`<section><h2>Next</h2><${Loaded} of=${data}>${({items, left_out: left = []}) => html`<${Table}
    caption="The next occurrences" rows=${withLeftOut(items, left)} none="It does not fire any more."
    rowKey=${(o) => o.occurrence} columns=${[...inZones(t.timezone || 'UTC', (o) => o.local_time),
      ['Note', (o) => (o.out ? html`<span class="warn">Does not fire: ${o.note.replace(/^left out: /, '')}</span>` :
        o.note || '')]]}
    />${left.length > mostLeftOut ? html`<p>More are left out between these and later.</p>` : ''}`}<//></section>`;
}

// further says how many of a list are not shown.
const further = (all, most) => (all.length > most ? `and ${(all.length - most).toLocaleString('en')} more` : '');

const rowOf = (event) => 'event-' + event;

// ToEvent leads to the row of an event, if the page has one.
const ToEvent = ({id, rows}) => (rows.includes(id) ?
  html`<a href=${'#' + rowOf(id)}>event ${id}</a>` : html`event ${id}`);

// Letters lists the newest dead letters of a trigger: what could not be delivered, where to, and whether it was
// redriven since. The trigger itself keeps no callback once it has ended, and may be gone while a letter is open.
function Letters({id, who, zone, round, say}) {
  const path = `v1/dead-letters?trigger_id=${encodeURIComponent(id)}&status=all&limit=${mostLetters}#${round}`;
  const letters = useList(path, mostLetters, 10000);
  return html`<section><h2>Dead letters</h2><${Loaded} of=${letters.first}>${() => html`<${Table}
    caption="Dead letters, the newest first" goesOn=${after(letters.cursor)}
    rows=${letters.items} none=${none(letters, 'None is kept any more.')}
    rowKey=${(l) => l.partition + '/' + l.offset} columns=${[
      ['Code', (l) => l.code], ['Detail', (l) => l.detail || ''], ['Channel', (l) => l.channel],
      ['Endpoint', (l) => l.endpoint || ''], ['Attempts', (l) => l.attempts, 'num'],
      ['Scheduled', (l) => (l.scheduled_at ? inZone(l.scheduled_at, zone) : '')],
      ['Failed', (l) => html`<${At} at=${l.failed_at} zone=${zone} />`],
      ['Status', (l) => html`${l.status} <${Redrive} of=${{...l, timezone: zone}} who=${who}
        done=${(text) => { say(text); letters.first.reload(); }} />`],
    ]} /><${More} of=${letters} />`}<//></section>`;
}

const newest = 200; // events that are read first

// Happened lists what happened: the newest events, and all from the first if asked. An address may name a row, or an
// occurrence, whose row is marked when it is there.
function Happened({id, who, zone, revision, shows, occurrence, say}) {
  const [wanted, want] = useState(); // the trigger of which all are wanted
  const whole = wanted === id;
  // Not before it is known whether the trigger has a revision: else each page would read all of it twice. The history
  // may be behind the owner, so it is read again.
  const known = who.history && revision !== undefined;
  const tail = useData(known && !whole ? trigger(id, `/events?tail=${newest}`) + '#' + revision : '', 10000);
  const list = useList(known && whole ? trigger(id, `/events?limit=${newest}&payload=false`) : '', newest, 10000);
  const data = whole ? list.first : tail;
  const items = whole ? list.items : (data.data && data.data.items) || [];
  useEffect(() => shows(items.map((e) => e.event_id)), [data.data, items.length]);
  const begun = items.length > 0;
  useEffect(() => { // an address may name a row, which is there only now
    const row = begun && document.getElementById(location.hash.slice(1));
    if (row) row.scrollIntoView();
  }, [begun]);
  const marked = occurrence && (items.find((e) => e.occurrence === occurrence && e.type === 'occurrence.fired') ||
    items.find((e) => e.occurrence === occurrence));
  useEffect(() => { // a fragment marks the row, and a later click on another one is not undone
    if (marked && !location.hash) location.replace('#' + rowOf(marked.event_id));
  }, [marked && marked.event_id]);
  const lost = useHeld(items.some((e) => e.type === 'delivery.dead_lettered'), (shown) => shown, (shown, next) =>
    (shown === next ? undefined : {text: next ? 'There are dead letters.' : 'There is no dead letter.'}));
  if (data.error && data.error.status === 404) return null;
  if (!who.history) return html`<section><h2>What happened</h2><${NoHistory} /></section>`;
  return html`${lost ? html`<${Letters} id=${id} who=${who}
    zone=${zone} round=${items.length} say=${say} />` : ''}<section><h2>What happened</h2>
    <${Loaded} of=${data}>${() => html`
      <${Line} kind="warn" text=${occurrence && !marked ? `None of these is of occurrence ${
        visible(when(occurrence, zone))}.` : ''} />
      <${Table} caption=${whole && list.cursor ? `The first ${items.length} events` :
        !whole && items.length === newest ? `The newest ${newest} events` : 'All events, the oldest first'}
        goesOn=${whole ? after(list.cursor) : items.length === newest ? 'before' : undefined}
        rows=${items} none="Nothing is known." rowKey=${(e) => e.event_id} rowId=${(e) => rowOf(e.event_id)} columns=${[
          ['At', (e) => inZone(e.occurred_at, zone)], ['Event', (e) => e.type],
          ['State', (e) => html`<${State} state=${e.state || ''} />`],
          ['What', (e) => what(e, zone), 'text'],
          ['By', (e) => [e.actor, e.source].filter(Boolean).join(', ')],
          ['Due event', (e) => (e.due_topic ? `${e.due_topic}/${e.due_partition ?? ''}` : '')],
        ]} />
      ${whole ? html`<${More} of=${list} />` : items.length === newest ? html`<p>
        <button type="button" onClick=${() => want(id)}>All events, from the first</button></p>` : ''}`}<//></section>`;
}
