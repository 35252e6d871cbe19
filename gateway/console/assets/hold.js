// Rows stay where they are while somebody is about to use one: while the pointer is on a list, a link or a button,
// while a list has the focus of a keyboard, and while a dialog is open. It holds back what comes for any list of the
// page: a list that grows moves those below it, too. A note says what waits. It is drawn a moment after the pointer or
// the focus has left, or when somebody presses the button of the note, or Escape.
import {html, useEffect, useLayoutEffect, useReducer, useRef} from './vendor/htm-preact.js';

// The focus that a click leaves behind counts for nothing: it is there long after it, when the page is to be read on.
// A button or a link counts, because somebody may have gone to it from a list.
const pointed = ['main .acts:hover', 'main .rows:hover', '#evidence:hover', '.news:hover', 'main a:hover',
  'main button:hover', 'main summary:hover'].join(', ');
const focused = 'main .rows:focus-visible, main .rows:has(:focus-visible), .news:has(:focus-visible)';

const patience = 10000; // ms that somebody who has acted waits for what comes of it
const way = 700; // ms from a list to what is pressed next
const touch = 5000; // ms for which a finger is about to use what it has touched: the browser takes it to be there on
let freeUntil = 0; // on the clock of the page; a movement or a key ends it sooner
const waiting = new Map(); // by list: what waits, {fresh, gone, text, take}
const notes = new Set(); // redraw the note
let at = {}; // where the pointer is, since when, and whether it is a finger
let uses = false; // somebody is about to use something, as of the last check
let left = -way; // when they were for the last time

const points = () => (!at.finger || performance.now() - at.since < touch) && Boolean(document.querySelector(pointed));

// inUse reports whether somebody is about to use something, or was a moment ago.
function inUse() {
  const is = points() || Boolean(document.querySelector('dialog[open]')) || Boolean(document.querySelector(focused));
  if (uses && !is) left = performance.now();
  uses = is;
  return is || performance.now() - left < way;
}

export const held = () => inUse() && performance.now() >= freeUntil;

// free draws what waits, and what comes until somebody moves on: they have acted, or gone to another address.
export function free() {
  freeUntil = performance.now() + patience;
  leave();
}

function leave() {
  if (held()) return;
  for (const {take} of [...waiting.values()]) take();
}

function moved({type, clientX: x, clientY: y, pointerType}) {
  const finger = pointerType === 'touch';
  if (finger || (type === 'pointermove' && (x !== at.x || y !== at.y))) freeUntil = 0;
  at = {x, y, since: performance.now(), finger};
  if (finger) setTimeout(soon, touch);
}

function soon() {
  setTimeout(inUse); // what has the focus next is known then
  setTimeout(leave, way + 50);
}
for (const name of ['pointermove', 'pointerdown']) addEventListener(name, moved, {capture: true, passive: true});
addEventListener('keydown', () => { freeUntil = 0; }, true);
document.addEventListener('pointerover', soon, {passive: true});
document.documentElement.addEventListener('pointerleave', soon);
for (const name of ['focusin', 'focusout', 'close']) document.addEventListener(name, soon, true);

// useWaiting adds to the note what waits, if anything does. take draws it.
export function useWaiting(what) {
  const id = useRef({});
  const text = what && JSON.stringify(what); // functions are left out
  const take = useRef();
  take.current = what && what.take;
  useLayoutEffect(() => {
    if (what) waiting.set(id.current, {...what, take: () => take.current && take.current()});
    else if (!waiting.delete(id.current)) return;
    for (const draw of notes) draw();
  }, [text]);
  useEffect(() => () => {
    if (waiting.delete(id.current)) for (const draw of notes) draw();
  }, []);
}

// useHeld is what is drawn of next: next itself, or while it is held what kept makes of what is on the screen and of
// next. waits says of both what waits, for the note.
export function useHeld(next, kept, waits) {
  const [, draw] = useReducer((n) => n + 1, 0);
  const shown = useRef(next);
  shown.current = held() ? kept(shown.current, next) : next;
  const what = waits(shown.current, next);
  useWaiting(what && {...what, take: () => { shown.current = next; draw(); }});
  return shown.current;
}

// useRows are the rows of a list that are drawn. While they are held each stays where it is, with what is known of it
// now, less what stays of it as it was; one that is gone stays as it was. A list may go on beyond what was read, at its
// beginning or at its end: what is pushed out there is not gone. What nobody sees is not held.
export function useRows(rows, keyOf, {at, stays = (was, now) => now, goesOn} = {}) {
  return useHeld(rows, (shown, next) => {
    if (at?.current?.closest('details:not([open])')) return next;
    const now = new Map(next.map((row) => [keyOf(row), row]));
    return shown.map((row) => (now.has(keyOf(row)) ? stays(row, now.get(keyOf(row))) : row));
  }, (shown, next) => {
    if (shown === next) return undefined;
    const missing = (all, of) => {
      const keys = new Set(of.map(keyOf));
      return all.map((row) => !keys.has(keyOf(row)));
    };
    const lost = missing(shown, next);
    const within = goesOn === 'before' ? lost.slice(lost.includes(false) ? lost.indexOf(false) : lost.length) :
      goesOn === 'after' ? lost.slice(0, lost.lastIndexOf(false) + 1) : lost;
    return {fresh: missing(next, shown).filter(Boolean).length, gone: within.filter(Boolean).length};
  });
}

const sum = (name) => [...waiting.values()].reduce((n, w) => n + (w[name] || 0), 0);

// Held is the note. It is at the other end of the window than what is used. Escape in a list is its button: Tab leads
// through the whole page to that.
export function Held() {
  const [, draw] = useReducer((n) => n + 1, 0);
  const high = useRef(false);
  const back = useRef([]); // where the focus was before: a row's link, and its list
  const show = () => {
    free();
    setTimeout(() => { // when it is drawn: what had the focus may be gone
      if (document.activeElement !== document.body && !document.activeElement.closest('.news')) return;
      const to = back.current.find((e) => e.isConnected) || document.querySelector('h1');
      if (to?.matches('h1')) to.tabIndex = -1; // else it takes no focus
      to?.focus();
    });
  };
  useEffect(() => { notes.add(draw); return () => notes.delete(draw); }, []);
  useEffect(() => {
    const came = ({target}) => {
      const list = target.closest?.('.rows');
      if (list) back.current = [target, list];
    };
    const pressed = ({key, target}) => {
      if (key === 'Escape' && waiting.size > 0 && !target.closest?.('input, select, textarea, dialog') &&
        !document.querySelector('dialog[open]')) show();
    };
    addEventListener('focusin', came);
    addEventListener('keydown', pressed);
    return () => { removeEventListener('focusin', came); removeEventListener('keydown', pressed); };
  }, []);
  const [fresh, gone] = [sum('fresh'), sum('gone')];
  const texts = [...new Set([...waiting.values()].map((w) => w.text).filter(Boolean))];
  if (fresh) texts.push(`${fresh.toLocaleString('en')} new.`);
  if (gone) texts.push(`${gone.toLocaleString('en')} gone.`);
  const was = useRef('');
  if (texts.length && !was.current) {
    const {y} = points() ? at : document.activeElement.getBoundingClientRect();
    high.current = y > innerHeight / 2;
  }
  was.current = texts.join(' ');
  return html`<div role="status">${texts.length ? html`<p class=${`news held ${high.current ? 'high' : ''}`}>
    ${was.current}${' '}<button type="button" onClick=${show} aria-keyshortcuts="Escape">Show</button>${
      document.querySelector(focused) ? ' or press Escape' : ''}</p>` : ''}</div>`;
}
