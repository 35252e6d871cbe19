// What the pages are made of.
import {html, useState, useEffect, useRef, useCallback} from './vendor/htm-preact.js';
import {get, home, root} from './api.js';

// go shows another address of the console.
export function go(to, replace) {
  const url = new URL(to, home);
  if (replace) history.replaceState(null, '', url);
  else history.pushState(null, '', url);
  dispatchEvent(new PopStateEvent('popstate'));
}

// A is a link within the console.
export function A({to, children, ...more}) {
  const follow = (e) => {
    if (e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return;
    e.preventDefault();
    go(to);
  };
  return html`<a href=${new URL(to, home).href} onClick=${follow} ...${more}>${children}</a>`;
}

export const triggerPage = (id) => 'trigger?id=' + encodeURIComponent(id);
export const ToTrigger = ({id}) => html`<${A} to=${triggerPage(id)} class="key">${id}<//>`;

// pointed reports whether somebody is about to click on something that a new row would move.
export const pointed = () =>
  document.querySelector('dialog[open], main .acts:hover, main .scroll:hover, #evidence:hover');

const route = (path) => (path || '').split('#')[0];

// useData reads a route, and again each so many milliseconds while the page is seen and no pointer is on its rows. What
// was read stays on the screen until the next answer. What follows # in a path is not sent: another one reads again.
export function useData(path, every = 0) {
  const [state, set] = useState({});
  const again = useRef(() => {});
  useEffect(() => {
    set((s) => (path && route(s.path) === route(path) ? {...s, path} : {}));
    if (!path) return undefined;
    let timer;
    let ended = new AbortController();
    const read = async () => {
      clearTimeout(timer);
      ended.abort();
      ended = new AbortController();
      const {signal} = ended;
      try {
        const data = await get(path, signal);
        if (!signal.aborted) set({path, data});
      } catch (error) {
        if (signal.aborted || error.name === 'AbortError') return;
        set((s) => ({path, data: s.path === path ? s.data : undefined, error}));
      }
      if (every && !signal.aborted) timer = setTimeout(wait, every);
    };
    const wait = () => (document.hidden || pointed() ? (timer = setTimeout(wait, every)) : read());
    again.current = read;
    read();
    return () => { clearTimeout(timer); ended.abort(); };
  }, [path, every]);
  return {...state, reload: useCallback(() => again.current(), [])};
}

// Fault says what went wrong, and never hides what was read before.
export function Fault({error, reload}) {
  useEffect(() => { // once for each error: the page stays until it is known who asks
    if (error && error.status === 401) dispatchEvent(new Event('unauthenticated'));
  }, [error]);
  if (!error) return null;
  return html`<p class="fault" role="alert">${error.message}${error.code ? html` <code>${error.code}</code>` : ''}
    ${reload ? html` <button type="button" onClick=${reload}>Try again</button>` : ''}</p>`;
}

// Loaded shows a read: that it goes on, what went wrong, or what came.
export function Loaded({of, children}) {
  return html`<div><${Fault} error=${of.error} reload=${of.reload} />
    ${of.data === undefined ? (of.error ? '' : html`<p class="wait">Reading…</p>`) : children(of.data)}</div>`;
}

// Table is a table whose columns are [heading, cell(row), class]. A link leads to a row that has a rowId.
export function Table({caption, columns, rows, none = 'None.', rowKey, rowId = () => undefined}) {
  if (rows.length === 0) return html`<p class="none">${none}</p>`;
  return html`<div class="scroll" role="region" aria-label=${caption} tabindex="0"><table>
    <caption>${caption}</caption>
    <thead><tr>${columns.map(([name, , kind]) => html`<th scope="col" class=${kind || ''}>${name}</th>`)}</tr></thead>
    <tbody>${rows.map((row, i) => html`<tr key=${rowKey ? rowKey(row) : i} id=${rowId(row)}>
      ${columns.map(([, cell, kind]) => html`<td class=${kind || ''}>${cell(row)}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

export const State = ({state}) => html`<span class="state state-${state}">${state}</span>`;

// Twins are the same on the command line.
export function Twins({lines}) {
  return html`<details class="twins"><summary>The same on the command line</summary>
    ${lines.map((l) => html`<pre><code>${l.startsWith('waterclock ') ? l + server() : l}</code></pre>`)}</details>`;
}

// server is the flag that names this instance, unless it is where the command line asks anyway.
function server() {
  const url = root.href.replace(/\/$/, '');
  return url === 'http://127.0.0.1:8080' ? '' : ` --url ${quoted(url)}`;
}

// curl is a read of the API.
export const curl = (path) => `curl ${quoted(new URL(path, root).href)}`;

// quoted is a text as one word of a shell.
export const quoted = (s) => (/^[\w@%+=:,./-]+$/.test(s) ? s : `'${s.replaceAll("'", `'\\''`)}'`);
