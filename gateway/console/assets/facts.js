// What has just happened. Rows never move under the pointer: new ones wait until somebody takes them.
import {html, useEffect, useRef, useState} from './vendor/htm-preact.js';
import {free} from './hold.js';
import {inZone, took, when} from './time.js';
import {A, Table, ToTrigger, partsOf, visible} from './parts.js';
import {useLive} from './live.js';

const most = 100;

// what is what an event says beside its type.
export const what = (e, zone) => [
  e.occurrence && when(e.occurrence, e.timezone || zone), e.attempt ? `attempt ${e.attempt}` : '',
  e.lateness_ms ? `${took(e.lateness_ms)} late` : '',
  e.step ? `step ${e.step} by ${e.channel}` : '', e.reason, e.detail,
].filter(Boolean).join(', ');

// newestOf are the newest of facts, in order. Partitions are read one by one, so an older one may come later.
const newestOf = (...facts) => facts.sort((a, b) => Date.parse(b.occurred_at) - Date.parse(a.occurred_at))
  .slice(0, most);

// nameless reports whether an event is of a command or receipt that named no trigger.
const nameless = (e) => !e.trigger || (e.type === 'command.rejected' && e.reason === 'invalid_key');

// About leads to the trigger of an event, or to what was refused with it.
const About = ({of: e}) => (nameless(e) ?
  html`<${A} to=${'deliveries?refused=' + encodeURIComponent(e.reason || '')}>no trigger<//>` :
  html`<${ToTrigger} id=${partsOf(e.trigger).id} />`);

const count = (n, text) => `${n.toLocaleString('en')} ${text}${n === 1 ? '' : 's'}`;

export function Facts({who}) {
  const [shown, show] = useState([]);
  const [{fresh, n}, keep] = useState({fresh: [], n: 0}); // what waits: the newest, and how many there are
  const [omitted, omit] = useState(0);
  const [gap, miss] = useState(false);
  const [said, say] = useState('');
  const stream = useLive((m) => {
    if (m.kind === 'fact') keep((all) => ({fresh: newestOf(m.data, ...all.fresh), n: all.n + 1}));
    if (m.kind === 'state') omit(m.data.omitted);
    if (m.kind === 'state' && m.data.missed) miss(true);
  });
  const waiting = useRef(0);
  waiting.current = n;
  useEffect(() => { // at most every 10 s, so that a screen reader is not drowned
    const timer = setInterval(() => say(waiting.current ? count(waiting.current, 'new fact') : ''), 10000);
    return () => clearInterval(timer);
  }, []);
  const take = () => {
    free();
    show(newestOf(...fresh, ...shown));
    if (n > fresh.length) miss(true);
    keep({fresh: [], n: 0});
    say('');
  };
  const [newest] = newestOf(...fresh, ...shown);
  return html`<section id="facts"><h2>What happens now</h2>
    <p class="newest">${newest ?
      `${inZone(newest.occurred_at)} · ${newest.type} · ${
        nameless(newest) ? 'no trigger' : visible(partsOf(newest.trigger).id)}` :
      {
        connected: `Nothing yet of tenant ${visible(who.tenant)}. What happens from now on appears here.`,
        opening: 'Connecting…',
        none: 'There is no stream: figures are read every few seconds.',
      }[stream]}</p>
    <p><button type="button" disabled=${!n} onClick=${take}>
        Show ${count(n, 'new fact')}</button>
      <span class="far">${omitted ? ` ${omitted.toLocaleString('en')} more in the last second are not here.` : ''}
        ${gap ? ' Some earlier facts are missing here.' : ''}</span>
      <span class="unseen" role="status">${said}</span></p>
    <${Table} caption="The newest first" rows=${shown} none="No fact is shown." rowKey=${(e) => e.event_id} columns=${[
      ['At', (e) => inZone(e.occurred_at)], ['Event', (e) => e.type],
      ['Trigger', (e) => html`<${About} of=${e} />`], ['What', what]]} /></section>`;
}
