// Triggers: which match?
import {html, useState, useEffect} from '../vendor/htm-preact.js';
import {get, query as queryOf} from '../api.js';
import {At} from '../time.js';
import {Fault, go, Loaded, State, Table, ToTrigger, Twins, quoted, useData} from '../parts.js';

const states = ['', 'PENDING', 'PAUSED', 'IN_FLIGHT', 'FIRED', 'FAILED', 'EXPIRED', 'CANCELLED'];
const fields = [['key_prefix', 'Key begins with'], ['user_id', 'User'], ['channel', 'Channel'], ['tag', 'Tag (name=value)']];

export function Triggers({query}) {
  const wanted = queryOf(Object.fromEntries(['state', ...fields.map(([f]) => f)].map((f) => [f, query[f]])));
  const path = 'v1/triggers' + (wanted ? wanted + '&' : '?') + 'sort=next_fire&fresh=false&limit=50';
  const first = useData(path);
  const [more, setMore] = useState({});
  useEffect(() => setMore({}), [path]);
  const submit = (e) => {
    e.preventDefault();
    const data = Object.fromEntries(new FormData(e.currentTarget));
    go('triggers' + queryOf(data));
  };
  const next = async (cursor) => {
    try {
      const page = await get(path + '&cursor=' + encodeURIComponent(cursor));
      setMore((m) => ({items: [...(m.items || []), ...page.items], cursor: page.next_cursor, read: true}));
    } catch (error) { setMore((m) => ({...m, error})); }
  };
  return html`<article><h1>Triggers</h1>
    <form class="filters" onSubmit=${submit}>
      <label>State<select name="state">${states.map((s) => html`<option value=${s} selected=${(query.state || '') === s}>
        ${s || 'any'}</option>`)}</select></label>
      ${fields.map(([name, text]) => html`<label>${text}<input name=${name} value=${query[name] || ''} /></label>`)}
      <button class="act">List</button></form>
    <${Loaded} of=${first}>${(page) => {
      const items = [...page.items, ...(more.items || [])];
      const cursor = more.read ? more.cursor : page.next_cursor;
      return html`
        ${(page.silent_partitions || []).length ? html`<p class="fault" role="alert">Not all are here:
          ${page.silent_partitions.length} partitions do not answer (${page.silent_partitions.join(', ')}).</p>` : ''}
        <${Table} caption=${`As of ${page.as_of}`} rows=${items} none="No trigger matches." rowKey=${(t) => t.trigger_id}
          columns=${[
            ['Trigger', (t) => html`<${ToTrigger} id=${t.trigger_id} />`],
            ['State', (t) => html`<${State} state=${t.state} />`],
            ['Next', (t) => html`<${At} at=${t.next_fire_at} zone=${t.timezone || 'UTC'} />`],
            ['Channel', (t) => t.channel], ['User', (t) => t.user_id || ''],
          ]} />
        <${Fault} error=${more.error} />
        ${cursor ? html`<p><button type="button" onClick=${() => next(cursor)}>More</button></p>` : ''}`;
    }}<//>
    <${Twins} lines=${['waterclock list --sort next_fire' + ['state', 'user_id', 'channel', 'tag', 'key_prefix'].filter((f) => query[f])
      .map((f) => ` --${{user_id: 'user', key_prefix: 'key-prefix'}[f] || f} ${quoted(f === 'state' ? query[f].toLowerCase() : query[f])}`)
      .join('')]} /></article>`;
}
