// Search: what does a text name?
import {html} from '../vendor/htm-preact.js';
import {At} from '../time.js';
import {
  A, Loaded, State, Table, ToTrigger, Twins, curl, kcatFinds, kcatReadsAt, keyOf, ours, silence, triggersOfUser,
  useData, userPage, visible,
} from '../parts.js';

// Became is what became of a trigger, and why. Its state alone would say FIRED, too, of what a worker did not send. Of
// one whose owner does not answer there is neither.
const Became = ({of: i}) => (i.code ? html`<${State} state=${i.code.toUpperCase()} /> ${visible(i.sentence)}` :
  i.state ? html`<${State} state=${i.state} />` : html`<span class="none">not known</span>`);

// nothing says that nothing was found. Of a record that may mean that it is gone.
const nothing = (q, away) => (away ? 'Nothing was found.' : /\/\d+\/\d+$/.test(q) ?
  'Nothing was found. A record is read only on topics commands, receipts and due, and may be gone.' :
  'Nothing is named so: no trigger, user, occurrence or record of this tenant.');

// kcatOf reads of the best match what Kafka has: the record that was named, and the events that say what happened.
const kcatOf = (who, q, best) => (!best ? [] : best.kind === 'user' ?
  [kcatFinds(who, {tenant: who.tenant, user_id: best.user_id})] : [
    ...(best.kind === 'record' ? [kcatReadsAt(who, q)] : []), kcatFinds(who, {trigger: keyOf(who, best.trigger_id)}),
  ]);

export function Search({query, again, who}) {
  const q = query.q || '';
  const path = q && 'v1/search?fresh=false&q=' + encodeURIComponent(q);
  const found = useData(path && `${path}#${again}`);
  if (!q) return html`<article><h1>Search</h1><p>Nothing is searched for. Write it into the box above.</p></article>`;
  return html`<article><h1>Found for ${visible(q)}</h1>
    <${Loaded} of=${found}>${({
      items, silent_partitions: silent, history_silent: away, kafka_silent: lost,
    }) => html`${silent.length ? html`
      <p class="fault" role="alert">Some may be missing: ${silence(silent)}.</p>` : ''}${away ? html`
      <p class="fault" role="alert">Some may be missing: the history does not answer.</p>` : ''}${lost ? html`
      <p class="fault" role="alert">Some may be missing: Kafka does not answer for this record.</p>` : ''}${
      items.length === 0 ? html`<p>${nothing(q, away || lost)}</p>` : html`
        ${items.filter((i) => i.kind === 'user').map(({user_id: user}) => html`<p>
          <${A} to=${userPage(user)}>Notifications of user ${visible(user)}<//>${' · '}
          <${A} to=${triggersOfUser(user)}>All triggers of user ${visible(user)}<//></p>`)}
        <${Table} caption="The best match first" rows=${items.filter((i) => i.kind !== 'user')}
          none="This user has no trigger." columns=${[
            ['Trigger', (i) => html`<${ToTrigger} id=${i.trigger_id} occurrence=${i.occurrence} />`],
            ['Occurrence', (i) => visible(i.occurrence || '')],
            ['What became of it', (i) => html`<${Became} of=${i} />`, 'text'],
            ['Next', (i) => html`<${At} at=${i.next_fire_at} zone=${i.timezone} />`],
            ['User', (i) => i.user_id || ''], ['Found as', (i) => i.kind],
          ]} />`}`}<//>
    <${Twins} lines=${[ours('search', q), curl(who, path),
      ...kcatOf(who, q, found.data && found.data.items[0])]} /></article>`;
}
