// What the pages are made of.
import {html, useState, useEffect, useLayoutEffect, useRef, useCallback} from './vendor/htm-preact.js';
import {get, home, json, root} from './api.js';
import {free, useHeld, useRows} from './hold.js';

// go shows another address of the console.
export function go(to, replace) {
  const url = new URL(to, home);
  if (replace || url.href === location.href) history.replaceState(null, '', url);
  else history.pushState(null, '', url);
  free();
  dispatchEvent(new PopStateEvent('popstate'));
}

// A is a link within the console.
export function A({to, children, ...more}) {
  const follow = (e) => {
    if (e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return;
    e.preventDefault();
    go(to);
  };
  return html`<a href=${new URL(to, home).href} onClick=${follow} ...${more}>${children}</a>`;
}

export const triggerPage = (id, occurrence) => 'trigger?id=' + encodeURIComponent(id) +
  (occurrence ? '&occurrence=' + encodeURIComponent(occurrence) : '');
// auditPage is the page of who did what to a trigger.
export const auditPage = (key) => 'system?trigger=' + encodeURIComponent(key);
export const userPage = (id) => 'user?id=' + encodeURIComponent(id);
export const triggersOfChannel = (name) => 'triggers?channel=' + encodeURIComponent(name);
export const triggersOfUser = (id) => 'triggers?user_id=' + encodeURIComponent(id);

// ToTrigger leads to a trigger. What an operator sees of another tenant is no link: pages have the caller's triggers.
export const ToTrigger = ({id, tenant, who, occurrence}) => (who && others(tenant, who) ?
  html`<span class="key">${visible(id)}</span>` : html`<${A} class="key" to=${triggerPage(id, occurrence)}>
    ${visible(id)}<//>`);

// others reports whether this is the name of another tenant than the caller's.
export const others = (tenant, who) => Boolean(tenant) && tenant !== who.tenant;

// after says that a list goes on behind its rows.
export const after = (goesOn) => (goesOn ? 'after' : undefined);

// tenants is the column of a table that has triggers of other tenants, too.
export const tenants = (rows, who, of = (row) => row.tenant) =>
  (rows.some((row) => others(of(row), who)) ? [['Tenant', of]] : []);

// Characters that nobody sees, that look like a space, or that turn a line around.
const hidden = /(?! )[\p{C}\p{Z}\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0]/gu;

const escaped = (c) => {
  const hex = c.codePointAt(0).toString(16);
  return hex.length > 4 ? '\\U' + hex.padStart(8, '0') : '\\u' + hex.padStart(4, '0');
};

// visible shows hidden characters as escapes. The command line does so, too.
export const visible = (text) => text.replace(hidden, (c) => (c === '\n' || c === '\t' ? c : escaped(c)));

const route = (path) => (path || '').split('#')[0];

// useData reads a route, and again each so many milliseconds while the page is seen. Whatever would move what somebody
// is about to use is held where it is drawn (hold.js): the page is read on. What was read of a route stays on the
// screen until its next answer. What follows # in a path is not sent: another one reads again. A new route has no data
// from its first drawing on: the effect that reads it comes after that drawing. A reload while it is read reads once
// more after that: begun anew each second, a read that takes longer would never end.
export function useData(path, every = 0) {
  const [state, set] = useState({});
  const again = useRef(() => {});
  const under = useRef(() => {}); // ends the read that is under way
  useEffect(() => {
    if (!path) return undefined;
    let timer, ended, more; // ended aborts the read under way
    const read = async () => {
      clearTimeout(timer);
      if (ended) {
        more = true;
        return;
      }
      more = false;
      ended = new AbortController();
      const {signal} = ended;
      try {
        const data = await get(path, signal);
        if (!signal.aborted) set({path, data});
      } catch (error) {
        if (signal.aborted) return;
        set((s) => ({path, data: route(s.path) === route(path) ? s.data : undefined, error}));
      }
      if (signal.aborted) return;
      ended = undefined;
      if (more) read();
      else if (every) timer = setTimeout(wait, every);
    };
    const wait = () => (document.hidden ? (timer = setTimeout(wait, every)) : read());
    const end = () => {
      clearTimeout(timer);
      if (ended) ended.abort();
      ended = undefined;
    };
    again.current = read;
    under.current = end;
    read();
    return () => { end(); again.current = () => {}; }; // an act that is answered late must not begin it anew
  }, [path, every]);
  const reload = useCallback(() => again.current(), []);
  const stop = useCallback(() => under.current(), []);
  return path && route(state.path) === route(path) ? {...state, reload, stop} : {reload, stop};
}

// useSeen says of the element with its reference whether it has been in view.
export function useSeen() {
  const at = useRef(null);
  const [seen, set] = useState(false);
  useEffect(() => {
    const observer = new IntersectionObserver((all) => {
      if (!all.some((e) => e.isIntersecting)) return;
      observer.disconnect();
      set(true);
    });
    observer.observe(at.current);
    return () => observer.disconnect();
  }, []);
  return [at, seen];
}

const mostPages = 10; // for so many rows as a page is asked for

// useList reads a list, whose path asks for pages of full rows, from its first page on. A page may be short, or empty,
// though others follow: an owner visits some triggers for a page and then answers with what matched. So it is read on
// until full rows are there, and not for ever. The first page is read again each so many milliseconds, until another
// one has been read: a row that moves to the second page would be missing between the two.
export function useList(path, full, every = 0) {
  const first = useData(path);
  const page = first.data;
  const shown = useRef();
  shown.current = page;
  useEffect(() => () => { shown.current = undefined; }, []);
  const [kept, keep] = useState({});
  const more = kept.of === page ? kept : {}; // not what followed on another first page
  const cursor = page && (more.of ? more.cursor : page.next_cursor);
  const read = async (wants = full) => {
    first.stop();
    let list = {...more, of: page, cursor, busy: true, error: undefined};
    const put = (fields) => {
      list = {...list, ...fields};
      if (shown.current === page) keep(list);
    };
    put({});
    try {
      for (let n = 0; n < mostPages && list.cursor && wants > 0 && shown.current === page; n++) {
        const {items, next_cursor: next, silent_partitions: silent = []} =
          await get(route(path) + '&cursor=' + encodeURIComponent(list.cursor));
        wants -= items.length;
        put({items: [...(list.items || []), ...items], cursor: next, silent: [...(list.silent || []), ...silent]});
      }
      put({busy: false});
    } catch (error) { put({error, busy: false}); }
  };
  const short = page && page.next_cursor && page.items.length < full;
  useEffect(() => { if (short) read(full - page.items.length); }, [page]);
  const alone = page && !more.of && !short;
  useEffect(() => {
    if (!every || !alone) return undefined;
    const timer = setInterval(() => document.hidden || first.reload(), every);
    return () => clearInterval(timer);
  }, [path, every, alone]);
  return {
    first, items: page ? [...page.items, ...(more.items || [])] : [], cursor, error: more.error, read: () => read(),
    silent: [...new Set([...((page && page.silent_partitions) || []), ...(more.silent || [])])], // of all pages
    busy: more.of ? more.busy : short, // a short page is read on right after its first drawing
  };
}

// none says that a list has no row: so far, if it goes on.
export const none = (list, text, soFar = 'None so far.') =>
  (!list.cursor ? text : list.busy ? soFar : `${soFar} More reads on.`);

// More is the foot of a list: what went wrong, that it is read on, or the button that does so.
export const More = ({of: list}) => html`<${Fault} error=${list.error} />
  ${list.busy ? html`<p class="wait">Reading…</p>` :
    list.cursor ? html`<p><button type="button" onClick=${() => { free(); list.read(); }}>More</button></p>` : ''}`;

// Fault says what went wrong, and never hides what was read before.
export function Fault({error, reload}) {
  useEffect(() => { // once for each error: the page stays until it is known who asks
    if (error && error.status === 401) dispatchEvent(new Event('unauthenticated'));
  }, [error]);
  if (!error) return null;
  return html`<p class="fault" role="alert">${visible(error.message)}
    ${error.code ? html` <code>${error.code}</code>` : ''}
    ${reload ? html` <button type="button" onClick=${() => { free(); reload(); }}>Try again</button>` : ''}</p>`;
}

// Line is a line that is there at times, and holds what comes as lists do.
export function Line({text, kind, role}) {
  const shown = useHeld(text, (now) => now, (now, next) => (next && now !== next ? {text: next} : undefined));
  return shown ? html`<p class=${kind} role=${role}>${shown}</p>` : null;
}

// Loaded shows a read: that it goes on, what went wrong, or what came. A line about what went wrong moves no rows,
// either.
export function Loaded({of, children}) {
  const error = useHeld(of.error, (shown, next) => (of.data === undefined || next?.status === 401 ? next : shown),
    (shown, next) => (shown?.message === next?.message ? undefined :
      {text: next ? visible(next.message) : 'It is read again.'}));
  return html`<div><${Fault} error=${error} reload=${of.reload} />
    ${of.data === undefined ? (of.error ? '' : html`<p class="wait">Reading…</p>`) : children(of.data)}</div>`;
}

// NoHistory stands where a list would be that only a history has.
export const NoHistory = () => html`<p class="warn">There is no history here, so this is not known.</p>`;

// silence names partitions that do not answer.
export const silence = (partitions) => (partitions.length === 1 ? `partition ${partitions[0]} does not answer` :
  `partitions ${partitions.join(', ')} do not answer`);

const shown = (cell) => (typeof cell === 'string' ? visible(cell) : cell);

const names = (columns) => columns.map(([name]) => name).join();

// useColumns are the columns of a table that are drawn: they are held, too.
const useColumns = (columns) => useHeld(columns,
  (shown, next) => shown.map((c) => next.find(([name]) => name === c[0]) || c),
  (shown, next) => (names(shown) === names(next) ? undefined : {}));

// noRow stands where no row is drawn. Some may wait.
const noRow = (all, none) => (all.length ? 'What has come is not shown yet.' : none);

// Table is a table whose columns are [heading, cell(row), class]. A link leads to a row that has a rowId. goesOn says
// where its list goes on beyond its rows.
export function Table({caption, columns, rows: all, none = 'None.', rowKey, rowId = () => undefined, goesOn}) {
  const at = useRef();
  const rows = useRows(all, rowKey || JSON.stringify, {at, goesOn});
  const drawn = useColumns(columns);
  if (rows.length === 0) return html`<p class="none" ref=${at}>${noRow(all, none)}</p>`;
  return html`<div class="scroll rows" role="region" aria-label=${caption} tabindex="0" ref=${at}><table>
    <caption>${caption}</caption>
    <thead><tr>${drawn.map(([name, , kind]) => html`<th scope="col" class=${kind || ''}>${name}</th>`)}</tr></thead>
    <tbody>${rows.map((row, i) => html`<tr key=${rowKey ? rowKey(row) : i} id=${rowId(row)}>
      ${drawn.map(([, cell, kind]) => html`<td class=${kind || ''}>${shown(cell(row))}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

// Items is a list whose items are item(row), each with the class that classOf says. stays makes of an item as it was,
// and as it is, what is drawn while it is held.
export function Items({rows: all, rowKey, item, classOf = () => undefined, none, stays, goesOn}) {
  const rows = useRows(all, rowKey, {stays, goesOn});
  return rows.length === 0 ? (none ? html`<p class="none">${noRow(all, none)}</p>` : '') : html`
    <ul class="rows">${rows.map((row) => html`<li key=${rowKey(row)} class=${classOf(row)}>${item(row)}</li>`)}</ul>`;
}

// useTyped is what a field has: what somebody types into it, until the address has another value of it. Nothing else
// writes over it, however often the page is drawn.
export function useTyped(value) {
  const [typed, type] = useState(value);
  useLayoutEffect(() => type(value), [value]);
  return [typed, (e) => type(e.currentTarget.value)];
}

// Field is a filter.
export function Field({name, text, example, value}) {
  const [typed, type] = useTyped(value);
  return html`<label>${text}<input name=${name} value=${typed} placeholder=${example} onInput=${type} /></label>`;
}

export const State = ({state}) => html`<span class="state state-${state}">${state}</span>`;

// Became is a state with what became of the trigger, where that is known. FIRED alone would be said, too, of what a
// worker did not send.
export const Became = ({state, code}) => html`<${State} state=${state} />${
  state === 'FIRED' && code && code !== 'fired' ? html` <${State} state=${code.toUpperCase()} />` : ''}`;

// Twins are the same on the command line.
export function Twins({lines}) {
  return html`<details class="twins"><summary>The same on the command line</summary>
    ${lines.map((l) => html`<pre><code>${
      visible(l.startsWith('waterclock ') ? l.includes(here) ? l.replace(here, server) : l + server() : l)
    }</code></pre>`)}</details>`;
}

// ours is a command about a key. One that begins like a flag stands behind all flags, that of the server included.
export const ours = (verb, key, flags = '') => `waterclock ${verb}${key.startsWith('-') ?
  `${flags}${here} -- ${quoted(key)}` : ` ${quoted(key)}${flags}`}`;

const here = '\0'; // where the flag of the server stands, if not at the end; in no text: quoted escapes it

// server is the flag that names this instance, unless it is where the command line asks anyway.
function server() {
  const url = root.href.replace(/\/$/, '');
  return url === 'http://127.0.0.1:8080' ? '' : ` --url ${quoted(url)}`;
}

// curl is a request to the API, a read unless another method is named. Where there is log-in it needs a key, which the
// command line takes from the same variable.
export const curl = (who, path, {method, type = 'application/json', body, headers = {}} = {}) =>
  `curl ${method ? `-X ${method} ` : ''}${quoted(new URL(path, root).href)}` +
  (who.actor ? ' -H "authorization: Bearer $WATERCLOCK_API_KEY"' : '') +
  Object.entries(headers).map(([name, value]) => ` -H ${quoted(`${name}: ${value}`)}`).join('') +
  (body === undefined ? '' : ` -H 'content-type: ${type}' -d ${quoted(json(body))}`);

// keyOf is a trigger's key on the topics.
export const keyOf = (who, id) => (who.tenant === 'default' ? id : `${who.tenant}/${id}`);

// partsOf are the tenant and the id in such a key. No id of tenant default has a slash.
export function partsOf(key) {
  const at = key.indexOf('/');
  return at < 0 ? {tenant: 'default', id: key} : {tenant: key.slice(0, at), id: key.slice(at + 1)};
}

// reached is how kcat finds a topic of this cluster. Only an operator is told the brokers. What they ask of a client
// stands in a file of its own.
const reached = (who, topic, prefix = who.topics_prefix) =>
  `-b ${who.brokers ? quoted(who.brokers.join(',')) : 'BROKERS'}` +
  `${who.brokers && !who.brokers_auth ? '' : ' -F KCAT_CONFIG'} -t ${quoted(prefix + topic)}`;

// kcatWrites writes a command to Kafka. To echo of some shells a backslash means something else.
export function kcatWrites(who, key, command) {
  const text = quoted(json(command));
  return `${text.includes('\\') ? "printf '%s\\n'" : 'echo'} ${text} | ` +
    `kcat -P ${reached(who, 'commands')} -k ${quoted(key)} -X topic.partitioner=murmur2_random`;
}

// kcatReads reads the newest records of a topic.
export const kcatReads = (who, topic) => `kcat -C -o -20 -e -q ${reached(who, topic)} -f '%k %s\\n'`;

// kcatReadsAt reads one record, of a topic by its whole name.
export function kcatReadsAt(who, record) {
  const parts = record.trim().split('/');
  const [partition, offset] = parts.splice(-2).map(Number);
  return `kcat -C -c 1 -e -q ${reached(who, parts.join('/'), '')} -p ${partition} -o ${offset} -f '%k %s\\n'`;
}

// kcatFinds reads the events that have these fields.
export function kcatFinds(who, fields) {
  const all = Object.entries(fields).map(([name, value]) => isSo(name, value));
  return `kcat -C -e -q ${reached(who, 'events')} | jq -c ${quoted(`select(${all.join(' and ')})`)}`;
}

// kcatTriggers reads what the newest event of each trigger says of it: of those for which all conditions hold, then.
export function kcatTriggers(who, conditions, then) {
  const steps = ['map(select(.type | startswith("trigger.") or startswith("occurrence.")))', 'group_by(.trigger)',
    'map(last)', `map(select(${conditions.join(' and ')}))`, then];
  return `kcat -C -e -q ${reached(who, 'events')} | jq -sc ${quoted(steps.join(' | '))}`;
}

// isSo is a condition of jq: a field has a value.
export const isSo = (name, value) => `.${name} == ${JSON.stringify(value)}`;

// quoted is a text as one word of a shell. One with hidden characters is in $'…', whose escapes bash and zsh know.
export const quoted = (s) => (/^[\w@%+=:,./-]+$/.test(s) ? s : s.search(hidden) < 0 ?
  `'${s.replaceAll("'", `'\\''`)}'` : `$'${s.replace(/[\\']/g, '\\$&').replace(hidden, escaped)}'`);
