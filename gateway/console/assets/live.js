// What happens now: one stream of the API for all tabs of this browser. Over HTTP/1.1 a browser has six connections to
// a server, so the seventh tab with a stream of its own would hang. One tab holds a lock and reads; it gives what comes
// to the others. Where a browser has no locks (plain http to another machine) there is no stream, and pages read again.
import {useEffect, useRef, useState} from './vendor/htm-preact.js';
import {forget, root} from './api.js';

const name = 'waterclock live ' + root.href;
const channel = navigator.locks && self.BroadcastChannel ? new BroadcastChannel(name) : undefined;
if (channel) channel.onmessage = (e) => hear(e.data); // also in tabs that show no stream
const listeners = new Set();
const silentAfter = 5000; // a state comes each second
const idleAfter = 30000; // so long this tab reads on when no page listens any more

let heard = 0; // when the last message of the stream came
let last = ''; // the id of the last fact
let begun = 0; // when this tab began to listen
let known = false; // something has come, or the stream was cut: so it is known whether there is one
let reading; // aborts the request under way, in the tab that reads
let wake = () => {}; // ends the wait before the next one
let wanted = false; // a page listens, or has until a moment ago
let idle; // the timer after which it is not wanted any more

const connected = () => Date.now() - heard < silentAfter;
const opening = () => Boolean(channel) && !known && (!begun || Date.now() - begun < silentAfter);
const streamNow = () => (connected() ? 'connected' : opening() ? 'opening' : 'none');

function take(m) {
  if (m.kind === 'restart') {
    if (reading) reading.abort();
    wake();
    return;
  }
  if (m.kind === 'state' || m.kind === 'fact') heard = Date.now();
  if (m.kind === 'cut') heard = 0;
  known = true;
  if (m.id) last = m.id;
  if (m.kind === 'unauthenticated') dispatchEvent(new Event('unauthenticated'));
  for (const l of listeners) l(m);
}

// hear takes a message of another tab. That somebody has logged in or out there means: of this tab, too.
function hear(m) {
  take(m);
  if (m.kind !== 'restart') return;
  forget();
  dispatchEvent(new Event('unauthenticated'));
}

function share(m) {
  channel.postMessage(m);
  take(m);
}

// event is one server-sent event.
function event(text) {
  const fields = Object.fromEntries(text.split('\n').map((line) => {
    const at = line.indexOf(': ');
    return [line.slice(0, at), line.slice(at + 2)];
  }));
  if (fields.data) share({kind: fields.event, id: fields.id, data: JSON.parse(fields.data)});
}

// read reads the stream to its end, or until nothing has come for some time.
async function read() {
  reading = new AbortController();
  const {signal} = reading;
  let timer = setTimeout(() => reading.abort(), silentAfter);
  try {
    const answer = await fetch(new URL('v1/live', root), {
      headers: {accept: 'text/event-stream', ...(last && {'last-event-id': last})}, signal, cache: 'no-store',
      credentials: 'same-origin',
    });
    if (answer.status === 400) last = '';
    if (!answer.ok) return answer.status;
    const text = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ''; ;) {
      const {done, value} = await text.read();
      if (done) return 200;
      clearTimeout(timer);
      timer = setTimeout(() => reading.abort(), silentAfter);
      const whole = (rest + value).split('\n\n');
      rest = whole.pop();
      whole.forEach(event);
    }
  } catch { // the network, or abort
    return 0;
  } finally {
    clearTimeout(timer);
  }
}

// lead reads for all tabs, for as long as a page of this one listens. Then another tab reads, if one listens there.
async function lead() {
  for (let wait = 500; wanted;) {
    const began = Date.now();
    const status = await read();
    if (!wanted) break;
    share({kind: status === 401 ? 'unauthenticated' : 'cut'});
    wait = Date.now() - began > 10000 ? 500 : Math.min(wait * 2, 5000);
    const after = status === 401 ? 30000 : wait * (0.5 + Math.random() / 2);
    await new Promise((done) => { wake = done; setTimeout(done, after); });
    wake = () => {};
  }
  begun = 0;
  known = false;
}

function begin() {
  clearTimeout(idle);
  wanted = true;
  if (begun || !channel) return;
  begun = Date.now();
  navigator.locks.request(name, lead);
}

// end ends the stream of this tab, if it reads one.
function end() {
  wanted = false;
  if (reading) reading.abort();
  wake();
}

addEventListener('online', () => wake());

// restart begins the stream anew, in whichever tab reads it: somebody has logged in or out.
export const restart = () => { if (channel) share({kind: 'restart'}); };

// useLive calls on with each message while a page is shown, and says whether there is a stream: connected, opening (not
// known yet) or none.
export function useLive(on) {
  const [stream, set] = useState(streamNow());
  const now = useRef();
  now.current = on;
  useEffect(() => {
    begin();
    const listener = (m) => { set(streamNow()); now.current(m); };
    listeners.add(listener);
    const timer = setInterval(() => set(streamNow()), 1000);
    return () => {
      clearInterval(timer);
      listeners.delete(listener);
      if (listeners.size) return;
      clearTimeout(idle);
      idle = setTimeout(end, idleAfter);
    };
  }, []);
  return stream;
}
