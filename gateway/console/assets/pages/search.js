// Search: what does a text name?
import {html} from '../vendor/htm-preact.js';
import {A, Loaded, ToTrigger, Twins, quoted, useData} from '../parts.js';

export function Search({query}) {
  const q = query.q || '';
  const found = useData(q ? 'v1/search?q=' + encodeURIComponent(q) : '');
  return html`<article><h1>Found for ${q}</h1>
    <${Loaded} of=${found}>${({items}) => (items.length === 0 ?
      html`<p>Nothing is named so: no trigger, user, occurrence or record of this tenant.</p>` :
      html`<ul>${items.map((i) => html`<li>${i.kind === 'user' ?
        html`<${A} to=${'triggers?user_id=' + encodeURIComponent(i.user_id)}>All triggers of user ${i.user_id}<//>` :
        html`${i.kind}: <${ToTrigger} id=${i.trigger_id} />${
          i.user_id ? html` of user ${i.user_id}` : ''}`}</li>`)}</ul>`)}<//>
    <${Twins} lines=${[`waterclock search ${quoted(q)}`]} /></article>`;
}
