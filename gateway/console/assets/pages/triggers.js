// Triggers: which match?
import {html, useState, useEffect, useRef} from '../vendor/htm-preact.js';
import {get, query as queryOf} from '../api.js';
import {At} from '../time.js';
import {Fault, go, Loaded, State, Table, ToTrigger, Twins, quoted, useData} from '../parts.js';

const states = ['', 'PENDING', 'PAUSED', 'IN_FLIGHT', 'FIRED', 'FAILED', 'EXPIRED', 'CANCELLED'];
const full = 50; // rows
const most = 10; // reads for so many
const fields = [
  ['key_prefix', 'Key begins with'], ['user_id', 'User'], ['channel', 'Channel'], ['tag', 'Tag (name=value)'],
];

// tagOf spells a tag as the API does, name:value.
const tagOf = (tag = '') => (/^[^:=]*=/.test(tag) ? tag.replace('=', ':') : tag);

export function Triggers({query}) {
  const wanted = queryOf({
    ...Object.fromEntries(['state', ...fields.map(([f]) => f)].map((f) => [f, query[f]])), tag: tagOf(query.tag),
  });
  const path = `v1/triggers${wanted ? wanted + '&' : '?'}sort=next_fire&fresh=false&limit=${full}`;
  const first = useData(path);
  const [more, setMore] = useState({});
  const shown = useRef();
  shown.current = path;
  // An owner visits some triggers for a page and then answers with what matched, be it none: with a filter that few
  // match, or for a small tenant among large ones. So go on until a page is full, and not for ever.
  const next = async (cursor, wants = full) => {
    setMore((m) => ({...m, busy: true}));
    try {
      for (let n = 0; n < most && cursor && wants > 0 && shown.current === path; n++) {
        const page = await get(path + '&cursor=' + encodeURIComponent(cursor));
        if (shown.current !== path) return;
        cursor = page.next_cursor;
        wants -= page.items.length;
        setMore((m) => ({items: [...(m.items || []), ...page.items], cursor, read: true, busy: true}));
      }
      setMore((m) => ({...m, busy: false}));
    } catch (error) { if (shown.current === path) setMore((m) => ({...m, error, busy: false})); }
  };
  useEffect(() => {
    setMore({});
    const page = first.path === path && first.data; // not that of the filters before
    if (page && page.next_cursor && page.items.length < full) next(page.next_cursor, full - page.items.length);
  }, [path, first.data]);
  const submit = (e) => {
    e.preventDefault();
    const data = Object.fromEntries(new FormData(e.currentTarget));
    go('triggers' + queryOf(data));
  };
  return html`<article><h1>Triggers</h1>
    <form class="filters" onSubmit=${submit}>
      <label>State<select name="state">${states.map((s) => html`
        <option value=${s} selected=${(query.state || '') === s}>${s || 'any'}</option>`)}</select></label>
      ${fields.map(([name, text]) => html`<label>${text}<input name=${name} value=${query[name] || ''} /></label>`)}
      <button class="act">List</button></form>
    <${Loaded} of=${first}>${(page) => {
      const items = [...page.items, ...(more.items || [])];
      const cursor = more.read ? more.cursor : page.next_cursor;
      // A short page is read on from right after it is drawn: until then it is not yet the end of reading.
      const busy = more.busy || !more.read && !more.error && cursor && items.length < full;
      return html`
        ${(page.silent_partitions || []).length ? html`<p class="fault" role="alert">Not all are here:
          ${page.silent_partitions.length} partitions do not answer (${page.silent_partitions.join(', ')}).</p>` : ''}
        <${Table} caption=${`As of ${page.as_of}`} none=${!cursor ? 'No trigger matches.' :
          busy ? 'None matches so far.' : 'None matches so far. More reads on.'}
          rows=${items} rowKey=${(t) => t.trigger_id} columns=${[
            ['Trigger', (t) => html`<${ToTrigger} id=${t.trigger_id} />`],
            ['State', (t) => html`<${State} state=${t.state} />`],
            ['Next', (t) => html`<${At} at=${t.next_fire_at} zone=${t.timezone || 'UTC'} />`],
            ['Channel', (t) => t.channel], ['User', (t) => t.user_id || ''],
          ]} />
        <${Fault} error=${more.error} />
        ${busy ? html`<p class="wait">Reading…</p>` :
          cursor ? html`<p><button type="button" onClick=${() => next(cursor)}>More</button></p>` : ''}`;
    }}<//>
    <${Twins} lines=${['waterclock list --sort next_fire' + flags(query)]} /></article>`;
}

// flags are the filters on the command line.
const flags = (query) => ['state', 'user_id', 'channel', 'tag', 'key_prefix'].filter((f) => query[f]).map((f) => {
  const name = {user_id: 'user', key_prefix: 'key-prefix'}[f] || f;
  return ` --${name} ${quoted(f === 'state' ? query[f].toLowerCase() : query[f])}`;
}).join('');
