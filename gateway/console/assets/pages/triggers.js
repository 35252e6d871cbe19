// Triggers: which match?
import {html} from '../vendor/htm-preact.js';
import {query as queryOf, trigger} from '../api.js';
import {NextOf, inZone} from '../time.js';
import {
  Became, Field, Loaded, More, Table, ToTrigger, Twins, after, curl, go, isSo, kcatTriggers, keyOf, none, quoted,
  silence, useData, useList, useSeen, useTyped,
} from '../parts.js';

const states = ['', 'PENDING', 'PAUSED', 'IN_FLIGHT', 'FIRED', 'FAILED', 'EXPIRED', 'CANCELLED'];
const full = 30; // rows of a page: lists are not compressed, and so many ordinary ones are within 20 KB
const fields = [
  ['key_prefix', 'Key begins with'], ['user_id', 'User'], ['channel', 'Channel'], ['tag', 'Tag (name=value)'],
  ['from', 'Fires from', '2027-01-31T09:00:00Z'], ['to', 'Fires before', '2027-01-31T09:00:00Z'],
];

// tagOf spells a tag as the API does, name:value.
const tagOf = (tag = '') => (/^[^:=]*=/.test(tag) ? tag.replace('=', ':') : tag);

// Ended is the state of a trigger. Of one that has fired it asks what became of it, once the row is in view, and
// once more when the list is read anew: the list does not say, and the answer is a costly read.
function Ended({of: t, who, round}) {
  const [at, seen] = useSeen();
  const asks = t.state === 'FIRED' && who.history;
  const why = useData(asks && seen ? `${trigger(t.trigger_id, '/explain?fresh=false')}#${round}` : '');
  return html`<span ref=${at}><${Became} state=${t.state} code=${why.data && why.data.code} />${
    why.error ? html` <small title=${why.error.message}>not known what became of it</small>` : ''}</span>`;
}

function StateField({value}) {
  const [typed, type] = useTyped(value);
  return html`<label>State<select name="state" onChange=${type}>${states.map((s) => html`
    <option value=${s} selected=${typed === s}>${s || 'any'}</option>`)}</select></label>`;
}

export function Triggers({query, again, who}) {
  const wanted = queryOf({
    ...Object.fromEntries(['state', ...fields.map(([f]) => f)].map((f) => [f, query[f]])), tag: tagOf(query.tag),
  });
  const path = `v1/triggers${wanted ? wanted + '&' : '?'}sort=next_fire&fresh=false&payload=false&limit=${full}`;
  const list = useList(`${path}#${again}`, full);
  const submit = (e) => {
    e.preventDefault();
    const data = Object.fromEntries(new FormData(e.currentTarget));
    go('triggers' + queryOf(data));
  };
  return html`<article><h1>Triggers</h1>
    <form class="filters" onSubmit=${submit}>
      <${StateField} value=${query.state || ''} />
      ${fields.map(([name, text, example]) => html`<${Field} name=${name} text=${text} example=${example}
        value=${query[name] || ''} />`)}
      <button class="act">List</button></form>
    ${query.from || query.to ? html`<p>By the next fire, or by the last one of what has ended: a series is not here for
      its later occurrences.</p>` : ''}
    <${Loaded} of=${list.first}>${(page) => html`
      ${list.silent.length ? html`<p class="fault" role="alert">Not all are here:${' '}
        ${silence(list.silent)}. <button type="button" onClick=${list.first.reload}>From the first page</button>
        </p>` : ''}
      <${Table} caption=${`As of ${inZone(page.as_of)}`}
        none=${none(list, 'No trigger matches.', 'None matches so far.')} rows=${list.items}
        goesOn=${after(list.cursor)} rowKey=${(t) => t.trigger_id} columns=${[
          ['Trigger', (t) => html`<${ToTrigger} id=${t.trigger_id} />`],
          ['State', (t) => html`<${Ended} of=${t} who=${who} round=${page.as_of} />`],
          ['Next', (t) => html`<${NextOf} of=${t} />`],
          ['Channel', (t) => t.channel], ['User', (t) => t.user_id || ''],
        ]} />
      <${More} of=${list} />`}<//>
    <${Twins} lines=${['waterclock list --sort next_fire' + flags(query), curl(who, path),
      ...(inEvents(query) ? [kcatTriggers(who, conditions(who, query), 'sort_by(.next_at) | .[]')] : []),
    ]} /></article>`;
}

// inEvents reports whether the events have all that a list is filtered by. Tags are in that of the register alone, and
// times of a filter are spelled in many ways.
const inEvents = (query) => !query.tag && !query.from && !query.to;

// conditions are the filters of jq.
const conditions = (who, query) => [
  isSo('tenant', who.tenant), ...['state', 'user_id', 'channel'].filter((f) => query[f]).map((f) => isSo(f, query[f])),
  ...(query.key_prefix ? [`(.trigger | startswith(${JSON.stringify(keyOf(who, query.key_prefix))}))`] : []),
];

// flags are the filters on the command line.
const flags = (query) => ['state', ...fields.map(([f]) => f)].filter((f) => query[f]).map((f) => {
  const name = {user_id: 'user', key_prefix: 'key-prefix'}[f] || f;
  return ` --${name} ${quoted(f === 'state' ? query[f].toLowerCase() : query[f])}`;
}).join('');
