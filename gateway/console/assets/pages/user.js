// User: what went out to a user, and what became of it on each channel?
import {html} from '../vendor/htm-preact.js';
import {inZone, when} from '../time.js';
import {
  A, Loaded, More, NoHistory, State, Table, ToTrigger, Twins, after, curl, kcatFinds, ours, quoted, triggerPage,
  triggersOfUser, useList, visible,
} from '../parts.js';

const full = 50; // rows of a page

// occurrenceOf is the occurrence of a notification, whose id is trigger@occurrence.
const occurrenceOf = (n) => n.notification_id.slice(n.trigger_id.length + 1);

// ToItsEvent leads to the event of a notification, among all that happened to its trigger.
const ToItsEvent = ({of: n}) => html`<${A} class="key" to=${triggerPage(n.trigger_id, occurrenceOf(n))}>
  ${visible(when(occurrenceOf(n)))}<//>`;

const Channels = ({of: n}) => Object.entries(n.channel_status).sort().map(([channel, status]) => html`
  <div>${visible(channel)}: <${State} state=${status} /></div>`);

export function User({query, who}) {
  const id = query.id || '';
  const path = id && who.history && `v1/users/${encodeURIComponent(id)}/notifications?limit=${full}`;
  const list = useList(path, full, 10000); // the history may be behind its owner
  if (!id) return html`<article><h1>User</h1><p>No user is named. Write a user id into the box above.</p></article>`;
  const [newest] = list.items;
  return html`<article><h1>User ${visible(id)}</h1>
    <p><${A} to=${triggersOfUser(id)}>All triggers of user ${visible(id)}<//></p>
    <h2>Notifications</h2>
    ${who.history ? html`<${Loaded} of=${list.first}>${() => html`
      <${Table} caption="The newest first" rows=${list.items} rowKey=${(n) => n.notification_id}
        goesOn=${after(list.cursor)}
        none="The history has no notification of this user." columns=${[
          ['Trigger', (n) => html`<${ToTrigger} id=${n.trigger_id} />`],
          ['Channels', (n) => html`<${Channels} of=${n} />`],
          ['Occurrence', (n) => html`<${ToItsEvent} of=${n} />`],
          ['First went out', (n) => inZone(n.created_at)],
          ['Type', (n) => n.type || ''], ['Acknowledged', (n) => (n.acked_at ? inZone(n.acked_at) : '')],
        ]} />
      <${More} of=${list} />`}<//>` : html`<${NoHistory} />`}
    <${Twins} lines=${[
      `waterclock notifications list --user ${quoted(id)}`,
      ...(path ? [curl(who, path)] : []),
      ...(newest ? [ours('notifications get', newest.notification_id),
        curl(who, 'v1/notifications/' + encodeURIComponent(newest.notification_id))] : []),
      kcatFinds(who, {tenant: who.tenant, user_id: id}),
    ]} /></article>`;
}
