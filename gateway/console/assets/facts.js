// What has just happened. Rows never move under the pointer: new ones wait until somebody takes them.
import {html, useEffect, useRef, useState} from './vendor/htm-preact.js';
import {inZone, took, when} from './time.js';
import {Table, ToTrigger, visible} from './parts.js';
import {useLive} from './live.js';

const most = 100;

// idOf is the id of an event's trigger, as its own tenant writes it.
export const idOf = (e) => (e.trigger.startsWith(e.tenant + '/') ? e.trigger.slice(e.tenant.length + 1) : e.trigger);

// what is what an event says beside its type.
export const what = (e, zone) => [
  e.occurrence && when(e.occurrence, e.timezone || zone), e.attempt ? `attempt ${e.attempt}` : '',
  e.lateness_ms ? `${took(e.lateness_ms)} late` : '',
  e.step ? `step ${e.step} by ${e.channel}` : '', e.reason, e.detail,
].filter(Boolean).join(', ');

// inOrder are the facts, the newest first. Partitions are read one by one, so an older one may come later.
const inOrder = (facts) => facts.sort((a, b) => Date.parse(b.occurred_at) - Date.parse(a.occurred_at));

const count = (n, text) => `${n.toLocaleString('en')} ${text}${n === 1 ? '' : 's'}`;

export function Facts() {
  const [shown, show] = useState([]);
  const [fresh, keep] = useState([]);
  const [omitted, omit] = useState(0);
  const [gap, miss] = useState(false);
  const [said, say] = useState('');
  const stream = useLive((m) => {
    if (m.kind === 'fact') keep((all) => inOrder([m.data, ...all]).slice(0, most));
    if (m.kind === 'state') omit(m.data.omitted);
    if (m.kind === 'state' && m.data.missed) miss(true);
  });
  const waiting = useRef(0);
  waiting.current = fresh.length;
  useEffect(() => { // at most every 10 s, so that a screen reader is not drowned
    const timer = setInterval(() => say(waiting.current ? count(waiting.current, 'new fact') : ''), 10000);
    return () => clearInterval(timer);
  }, []);
  const take = () => {
    show([...fresh, ...shown].slice(0, most));
    keep([]);
    say('');
  };
  const newest = fresh[0] || shown[0];
  return html`<section id="facts"><h2>What happens now</h2>
    <p class="newest">${newest ? `${inZone(newest.occurred_at)} · ${newest.type} · ${visible(idOf(newest))}` :
      {
        connected: 'Nothing yet. What happens from now on appears here.', opening: 'Connecting…',
        none: 'There is no stream: figures are read every few seconds.',
      }[stream]}</p>
    <p><button type="button" disabled=${!fresh.length} onClick=${take}>
        Show ${count(fresh.length, 'new fact')}</button>
      <span class="far">${omitted ? ` ${omitted.toLocaleString('en')} more in the last second are not here.` : ''}
        ${gap ? ' Some earlier facts are missing here.' : ''}</span>
      <span class="unseen" role="status">${said}</span></p>
    <${Table} caption="The newest first" rows=${shown} none="No fact is shown." rowKey=${(e) => e.event_id} columns=${[
      ['At', (e) => inZone(e.occurred_at)], ['Event', (e) => e.type],
      ['Trigger', (e) => html`<${ToTrigger} id=${idOf(e)} />`], ['What', what]]} /></section>`;
}
