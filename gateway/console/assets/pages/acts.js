// Acts on one trigger. Each says first what it will do, and how to do it without the console.
import {html, useRef, useState, useLayoutEffect} from '../vendor/htm-preact.js';
import {Problem, ask, trigger} from '../api.js';
import {free, useHeld} from '../hold.js';
import {At, inZone} from '../time.js';
import {
  A, Fault, Twins, auditPage, curl, kcatWrites, keyOf, others, ours, quoted, useData, visible,
} from '../parts.js';

const mostNote = 512; // bytes, as the API counts
const living = ['PENDING', 'PAUSED', 'IN_FLIGHT'];

// isSeries reports whether a trigger has further occurrences: of a rule, or of a list of dates.
const isSeries = (t) => t.recurrence || t.include;

// verb makes the request of an act that has a route of its own, and the command of the same op.
const verb = (name, op = name) => (id, f) => ({
  method: 'POST', path: trigger(id, ':' + name), body: f, command: {op, ...f},
});

// PlanOf is when a trigger fires by its plan.
const PlanOf = ({of: t}) => html`<${At} at=${t.fire_at} zone=${t.timezone || 'UTC'} local=${t.local_time}
  far=${false} />`;

// acts say what each does, when it makes sense, which fields [name, text, value] it asks for, and how it is requested
// over HTTP, on the command line and over Kafka. of are the fields that name which occurrence somebody saw. A redrive
// over Kafka carries the dead letter, so nobody types it. It stands last, because it comes when the dead letters of a
// series are read: no other button moves.
const acts = [
  {
    name: 'Snooze', does: 'It fires later. A series fires once more, at that time.',
    when: (t) => living.includes(t.state) || (t.user_id && t.state !== 'CANCELLED' && t.state !== 'ERASED'),
    fields: [['for', 'For how long', '10m']], once: (t) => !isSeries(t) && t.state === 'PENDING',
    request: verb('snooze'), cli: 'snooze', flags: {for: '--for'},
  },
  {
    name: 'Skip', does: (t) => html`The occurrence of <${PlanOf} of=${t} /> is left out. The series goes on.`,
    when: (t) => isSeries(t) && living.includes(t.state), fields: [], of: (t) => ({occurrence: t.fire_at}),
    request: verb('skip'), cli: 'skip',
  },
  {
    name: 'Reschedule', does: 'It fires after this time instead, counted from now.',
    when: (t) => !isSeries(t) && ['PENDING', 'PAUSED'].includes(t.state), fields: [['delay', 'In how long', '1h']],
    request: (id, f) => ({method: 'PATCH', path: trigger(id), type: 'application/merge-patch+json', body: f,
      command: {op: 'reschedule', ...f}}), cli: 'reschedule', flags: {delay: '--in'},
  },
  {
    name: 'Pause', does: 'Nothing fires until it is resumed.', when: (t) => t.state === 'PENDING', fields: [],
    request: verb('pause'), cli: 'pause',
  },
  {
    name: 'Resume', does: 'It goes on. Its misfire policy decides on what was missed.',
    when: (t) => t.state === 'PAUSED', fields: [], request: verb('resume'), cli: 'resume',
  },
  {
    name: 'Run now', does: 'It fires once, at once. Its own plan stays as it is.',
    when: (t) => living.includes(t.state), fields: [], request: verb('run', 'run_now'), cli: 'run',
    keepsRevision: true,
  },
  {
    name: 'Cancel', does: 'It does not fire any more. What is sent already cannot be called back.',
    when: (t) => living.includes(t.state), fields: [], cli: 'cancel',
    request: (id, f) => ({method: 'DELETE', path: trigger(id) + (f.note ? '?note=' + encodeURIComponent(f.note) : ''),
      command: {op: 'cancel', ...f}}),
  },
  {
    name: 'Redrive', does: (t) => (t.ce_id ?
      `The dead letter of occurrence ${occurrenceOf(t)}, attempt ${t.attempts}, is sent again, under the same ce_id.` :
      'All its open dead letters are sent again, each under its own ce_id.'),
    when: (t, open) => t.state === 'FAILED' || (isSeries(t) && open), fields: [],
    of: (t) => (t.ce_id ? {ce_id: t.ce_id} : {}), unconditional: true, cli: 'redrive',
    flags: {ce_id: '--ce-id'}, says: redriven,
    request: (id, f) => ({method: 'POST', path: 'v1/dead-letters:redrive', body: {trigger_id: id, ...f}}),
  },
];

// redriven says what became of dead letters. The lines of the answer say how far it was, and what was refused.
function redriven({text}) {
  const lines = text.trim().split('\n').map((line) => JSON.parse(line));
  const last = lines.at(-1);
  if (!last.done) {
    throw new Problem(last.status || 0, last.detail ? last :
      {detail: 'The server ended before it was done. Repeat it: what was sent again is not sent twice.'});
  }
  const found = [
    [last.redriven, 'sent again'], [last.pending, 'not decided yet'], [last.expired, 'expired'],
    [last.duplicate, 'redriven or delivered before'], [last.refused, 'refused'],
  ].filter(([n]) => n).map(([n, what]) => `${n.toLocaleString('en')} ${what}`);
  if (last.redriven && found.length === 1) return 'done';
  if (last.redriven || last.pending) return found.join(', ');
  const why = lines.find((line) => line.detail);
  throw new Problem(200, {
    detail: `Nothing was sent again: ${found.join(', ') || 'no letter is open'}.${why ? ` ${why.detail}` : ''}`,
    code: why && why.code,
  });
}

// stillAs fails if a trigger has fired since it was read: a firing changes no revision.
async function stillAs(t) {
  const {value: now} = await ask('GET', trigger(t.trigger_id, '?payload=false'));
  if (now.state !== t.state || now.next_fire_at !== t.next_fire_at) {
    throw Object.assign(new Problem(409, {}), {fired: true});
  }
}

// meanwhile says what has happened to a trigger since somebody read it, if an act was not done because of that.
const meanwhile = (err) => (err.fired ? 'It has fired meanwhile.' : err.status === 412 ? 'It has changed meanwhile.' :
  err.field === 'occurrence' ? 'This occurrence has fired, or was removed.' : '');

const decided = ({status}) => (status === 202 ? 'written, not decided yet' : 'done');

// named is a trigger, with its tenant if it is another one.
const named = (t, who) => visible(t.trigger_id) + (others(t.tenant, who) ? ` of tenant ${t.tenant}` : '');

// openLetters is where it stands whether a series has dead letters that can be redriven. Its state does not say it.
// Where that is not known, a redrive is offered: its answer says whether a letter is open.
const openLetters = (t) => `v1/dead-letters?trigger_id=${encodeURIComponent(t.trigger_id)}&limit=1&fresh=false#${
  t.updated_at}`;

// Acts has a button for each act. Its dialog keeps the trigger as it was when somebody opened it: an act names the
// revision that they saw, not one that the page has read since. A button never becomes another act: it stays, or goes.
// The focus of one that goes is then on the group, where Enter does nothing, and a screen reader says so.
export function Acts({of: t, who, done}) {
  const [asked, set] = useState();
  const [gone, lose] = useState(''); // the act whose button had the focus
  const group = useRef();
  const letters = useData(who.history && who.rights.includes('act') && isSeries(t) ? openLetters(t) : '', 10000);
  const known = letters.data ? letters.data.items.length > 0 : !who.history || (letters.error ? true : undefined);
  const open = useHeld(known, (shown, next) => (shown === undefined ? next : shown), (shown, next) =>
    (shown === next ? undefined : {text: next ? 'A dead letter is open.' : 'No dead letter is open any more.'}));
  const offered = acts.filter((a) => a.when(t, open));
  const at = document.activeElement; // as of before this drawing
  const had = group.current && at !== group.current && group.current.contains(at) ? at : undefined;
  const keep = (name, button) => {
    if (document.activeElement !== document.body || !group.current) return;
    if (button && button.isConnected) {
      button.focus();
    } else {
      group.current.focus();
      lose(name);
    }
  };
  useLayoutEffect(() => {
    if (had) keep(had.textContent, had);
    if (gone && offered.some((a) => a.name === gone)) lose(''); // it may go once more, without the focus
  });
  if (!who.rights.includes('act')) return null;
  const close = () => {
    set(undefined);
    keep(asked.act.name); // the dialog has given the focus back, if its button is still there
  };
  return html`<div><div ref=${group} class="acts" role="group" aria-label="Acts on this trigger" tabindex="-1">${
    offered.map((a) => html`
      <button type="button" key=${a.name} onClick=${() => set({act: a, t})}>${a.name}</button>`)}</div>
    <span class="unseen" role="status">${gone && !offered.some((a) => a.name === gone) ?
      `${gone} is not offered any more.` : ''}</span>
    ${who.rights.includes('operate') ? html`<p>
      <${A} to=${auditPage(keyOf(who, t.trigger_id))}>Who did what to it<//></p>` : ''}
    ${asked ? html`<${Ask} ...${asked} who=${who} close=${close} done=${done} key=${asked.act.name} />` : ''}</div>`;
}

// occurrenceOf is when a dead letter was scheduled.
const occurrenceOf = (l) => (l.scheduled_at ? inZone(l.scheduled_at, l.timezone) : visible(l.ce_id || ''));

// Redrive is the button of that act beside a dead letter, which may be another tenant's. It sends this letter alone.
// Its name has the occurrence, because a trigger may have several letters. The dialog keeps the letter as it was when
// somebody opened it, and stays when the letter is not open any more.
export function Redrive({of: letter, who, done}) {
  const [asked, ask] = useState();
  if (!who.rights.includes('act') || (letter.status !== 'open' && !asked)) return null;
  return html`<button type="button" aria-label=${`Redrive ${named(letter, who)}, ${occurrenceOf(letter)}`}
      onClick=${() => ask(letter)}>Redrive</button>
    ${asked ? html`<${Ask} act=${acts.find((a) => a.name === 'Redrive')} t=${asked} who=${who}
      close=${() => ask(undefined)} done=${done} />` : ''}`;
}

function Ask({act, t, who, close, done}) {
  const box = useRef();
  const [values, set] = useState(Object.fromEntries(act.fields.map(([name, , value]) => [name, value])));
  const [busy, work] = useState(false);
  const [error, fail] = useState();
  const id = t.trigger_id;
  const tenant = others(t.tenant, who) ? {tenant: t.tenant} : {};
  useLayoutEffect(() => { box.current.showModal(); }, []); // a dialog that is on the page takes Escape
  const filled = {...(act.of && act.of(t)), ...Object.fromEntries(Object.entries(values).filter(([, v]) => v !== '')),
    ...tenant};
  const r = act.request(id, filled);
  const headers = act.unconditional ? {} : {'if-match': `"${t.revision}"`};
  const submit = async (e) => {
    e.preventDefault();
    work(true);
    fail();
    try {
      if (act.once && act.once(t)) await stillAs(t);
      const answer = await ask(r.method, r.path, r.body, {type: r.type, headers});
      if (box.current && box.current.open) free(); // else they are at something else by now
      done(`${act.name}: ${(act.says || decided)(answer)}, ${named(t, who)}`);
      if (box.current) box.current.close(); // gives the focus back; a dialog that is only removed does not
    } catch (err) {
      const twice = act.keepsRevision && (err.status === 0 || err.status >= 500);
      if (!box.current || !box.current.open) { // nobody would read it here
        done(`${act.name}: failed, ${named(t, who)}. ${meanwhile(err) || visible(err.message)}${
          twice ? ' A repeat may fire it twice: read what happened.' : ''}`);
        return;
      }
      if (twice) err.message += ' A repeat may fire it twice: close this, and read what happened.';
      fail(err);
      work(twice);
    }
  };
  const flagOf = (field) => (act.flags && act.flags[field]) || '--' + field;
  const flags = Object.entries(filled).map(([field, v]) => ` ${flagOf(field)} ${quoted(v)}`).join('');
  return html`<dialog ref=${box} onClose=${close} aria-labelledby="asked"><form onSubmit=${submit}>
    <h2 id="asked">${act.name}: ${named(t, who)}</h2><p>${typeof act.does === 'function' ? act.does(t) : act.does}</p>
    ${act.fields.map(([name, text]) => html`<label>${text}<input name=${name} value=${values[name]} required
      onInput=${(e) => set({...values, [name]: e.currentTarget.value})} /></label>`)}
    <label>Note, for whoever reads what happened<input name="note" onInput=${({currentTarget: note}) => {
      const bytes = new TextEncoder().encode(note.value).length;
      const long = `A note has at most ${mostNote} bytes, and this one has ${bytes}.`;
      note.setCustomValidity(bytes > mostNote ? long : '');
      set({...values, note: note.value});
    }} /></label>
    <${Fault} error=${error && meanwhile(error) ?
      {message: meanwhile(error) + ' Close this, and read it again.'} : error} />
    <${Twins} lines=${[ours(act.cli, id, flags + (act.unconditional ? '' : ` --if-revision ${t.revision}`)),
      curl(who, r.path, {...r, headers}),
      ...(r.command ? [kcatWrites(who, keyOf(who, id), {...r.command, if_revision: t.revision})] : [])]} />
    <div class="acts"><button type="button" onClick=${() => box.current.close()}>Close</button>
      <button class="act" disabled=${busy}>${act.name}</button></div></form></dialog>`;
}
