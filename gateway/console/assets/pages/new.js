// New: a form that says while one types when a trigger would fire, and registers it.
import {html, useEffect, useState} from '../vendor/htm-preact.js';
import {ask, call, trigger} from '../api.js';
import {inZones, ownZone} from '../time.js';
import {Fault, Table, ToTrigger, Twins, curl, go, kcatWrites, keyOf, ours, quoted, triggerPage} from '../parts.js';

const kinds = [['delay', 'after a delay'], ['fire_at', 'at a time'], ['recurrence', 'again and again']];

// whenOf is the time fields of the command.
function whenOf(f) {
  if (f.kind === 'delay') return {delay: f.delay};
  const at = f.kind === 'fire_at' ? {fire_at: f.fire_at} : {recurrence: f.recurrence, start: f.start};
  return {...at, timezone: f.timezone};
}

const filled = (o) => Object.fromEntries(Object.entries(o).filter(([, v]) => v !== ''));

// isJSON reports whether a text is JSON.
function isJSON(text) {
  try { JSON.parse(text); } catch { return false; }
  return true;
}

// onlyNew are the headers of a register that replaces nothing.
const onlyNew = {'if-none-match': '*'};

// withPayload is the JSON of an object, with a payload as it was typed: a number that was read and written again may be
// another one.
function withPayload(object, payload) {
  const fields = JSON.stringify(object);
  return payload === '' ? fields : `${fields.slice(0, -1)}${fields === '{}' ? '' : ','}"payload":${payload}}`;
}

export function New({who, say}) {
  const [f, set] = useState({kind: 'delay', id: '', delay: '10m', fire_at: '', recurrence: 'FREQ=DAILY', start: '',
    timezone: ownZone(), channel: '', user_id: '', payload: ''});
  const [seen, show] = useState({}); // the last preview, and of which fields it is
  const [error, fail] = useState();
  const [unsure, doubt] = useState(); // the key whose register had no answer
  const [round, again] = useState(0); // how often the same preview was asked for once more
  const when = filled(whenOf(f));
  const asked = JSON.stringify(when);
  useEffect(() => { // a preview of what is typed, a moment after the last key
    const ended = new AbortController();
    const timer = setTimeout(async () => {
      try {
        const {occurrences} = await call('POST', 'v1/preview', {...when, n: 10}, {signal: ended.signal});
        show({of: asked, occurrences: occurrences || [], zone: when.timezone || 'UTC'});
      } catch (err) {
        if (err.status === 0) err.message = 'The server does not answer.'; // a preview is no act that may have happened
        if (err.name !== 'AbortError') show({of: asked, error: err});
      }
    }, 300);
    return () => { clearTimeout(timer); ended.abort(); };
  }, [asked, round]);
  const retry = () => { show({}); again(round + 1); };
  const bad = f.payload !== '' && !isJSON(f.payload);
  const payload = bad ? '' : f.payload;
  const fields = {...when, ...filled({channel: f.channel, user_id: f.user_id})};
  const body = withPayload(fields, payload);
  const submit = async (e) => {
    e.preventDefault();
    fail(bad && {message: 'The payload is no JSON. Put a text in "quotes".'});
    if (bad) return;
    try {
      const {status} = await ask('PUT', trigger(f.id), body, {headers: onlyNew});
      say(status === 202 ? `Written, not decided yet: ${f.id}` : `Registered: ${f.id}`);
      go(triggerPage(f.id));
    } catch (err) {
      if (err.status === 0 || err.status >= 500) doubt(f.id);
      fail(err.status !== 412 ? err : {taken: f.id, message: unsure === f.id ?
        'There is a trigger with this key now: what you sent before may have registered it. Look at it:' :
        'There is a trigger with this key already. Take another key, or look at it:'});
    }
  };
  const input = (name, text, more = {}) => html`<label>${text}<input name=${name} value=${f[name]} ...${more}
    onInput=${(e) => set({...f, [name]: e.currentTarget.value})} /></label>`;
  if (!who.rights.includes('write')) {
    return html`<article><h1>New</h1><p>Your roles may not register triggers.</p></article>`;
  }
  const flags = {delay: '--in', fire_at: '--at', recurrence: '--every', start: '--start', timezone: '--tz'};
  return html`<article><h1>New</h1>
    <form class="filters" onSubmit=${submit}>
      ${input('id', 'Key', {required: true, maxlength: 255})}
      <label>It fires<select name="kind" value=${f.kind} onChange=${(e) => set({...f, kind: e.currentTarget.value})}>
        ${kinds.map(([kind, text]) => html`<option value=${kind} selected=${f.kind === kind}>${text}</option>`)}
      </select></label>
      ${f.kind === 'delay' ? input('delay', 'Delay, as 7m or 2d', {required: true}) : ''}
      ${f.kind === 'fire_at' ? input('fire_at', 'Local time, as 2027-01-31T09:00', {required: true}) : ''}
      ${f.kind === 'recurrence' ? input('recurrence', 'Rule: RRULE, cron: or every:', {required: true}) : ''}
      ${f.kind === 'recurrence' ? input('start', 'From, as 2027-01-31T09:00') : ''}
      ${f.kind !== 'delay' ? input('timezone', 'Zone') : ''}
      ${input('channel', 'Channel')} ${input('user_id', 'User')} ${input('payload', 'Payload, JSON')}
      <button class="act">Register</button></form>
    <${Fault} error=${error} />
    ${error && error.taken ? html`<p><${ToTrigger} id=${error.taken} /></p>` : ''}
    <h2>It would fire</h2>
    <div aria-live="polite" aria-busy=${seen.of !== asked} id="preview">${!seen.of ?
      html`<p class="wait">Reading…</p>` : seen.error ? html`<${Fault} error=${seen.error}
        reload=${[400, 422].includes(seen.error.status) ? undefined : retry} />` :
      html`<${Table} caption="The next ten" rows=${seen.occurrences} none="Never." rowKey=${(o) => o.at}
        columns=${[...inZones(seen.zone, (o) => o.local), ['Note', (o) => o.note || '']]} />`}</div>
    <${Twins} lines=${[
      ours('schedule', f.id || 'KEY', Object.entries(when).map(([k, v]) => ` ${flags[k]} ${quoted(v)}`).join('') +
        (f.channel ? ` --channel ${quoted(f.channel)}` : '') + (f.user_id ? ` --user ${quoted(f.user_id)}` : '') +
        (payload === '' ? '' : ` --data ${quoted(payload)}`)),
      curl(who, trigger(f.id || 'KEY'), {method: 'PUT', body, headers: onlyNew}),
      kcatWrites(who, keyOf(who, f.id || 'KEY'), withPayload({op: 'register', if_absent: true, ...fields}, payload)),
    ]} /></article>`;
}
