// The console: one document, whose address says what it shows.
import {html, render, useState, useEffect, useLayoutEffect, useRef} from './vendor/htm-preact.js';
import {Problem, call, home, login, logout} from './api.js';
import {restart as restartStream} from './live.js';
import {Held} from './hold.js';
import {A, Fault, go, useData, visible} from './parts.js';
import {Now} from './pages/now.js';
import {Triggers} from './pages/triggers.js';
import {Trigger} from './pages/trigger.js';
import {Deliveries} from './pages/deliveries.js';
import {Forecast} from './pages/forecast.js';
import {System} from './pages/system.js';
import {Search} from './pages/search.js';
import {User} from './pages/user.js';
import {New} from './pages/new.js';
import {Runbook} from './pages/runbook.js';

const pages = [
  ['', 'Now', Now], ['triggers', 'Triggers', Triggers], ['forecast', 'Forecast', Forecast],
  ['deliveries', 'Deliveries', Deliveries], ['system', 'System', System], ['new', 'New', New],
  ['runbook', 'Runbook', Runbook],
  ['trigger', '', Trigger], ['search', '', Search], ['user', '', User],
];

// An address is a page and what it is asked. id names the one thing that a page is about: for another one the page
// begins anew, so that nothing of the one before is on it. It does so for another caller, too.
const address = () => ({
  page: decoded(location.pathname.slice(home.pathname.length)).replace(/\/+$/, ''),
  query: Object.fromEntries(new URLSearchParams(location.search)), href: location.href, again: 0,
});

function decoded(path) {
  try { return decodeURIComponent(path); } catch { return path; }
}

// useAddress is the address that is shown. again counts how often somebody has asked for the same one once more.
function useAddress() {
  const [at, set] = useState(address());
  useEffect(() => {
    const changed = () => set((was) => {
      const next = address();
      return next.href === was.href ? {...next, again: was.again + 1} : next;
    });
    addEventListener('popstate', changed);
    return () => removeEventListener('popstate', changed);
  }, []);
  return at;
}

// kept fails if the browser has not kept the session: over plain http it drops the cookie without a word.
async function kept() {
  try {
    await call('GET', 'v1/whoami');
  } catch (err) {
    if (err.status !== 401) return; // the page says what is wrong
    throw new Problem(0, {
      detail: 'This browser does not keep the session. Open the console over https, or on localhost.',
    });
  }
}

function Login({begun}) {
  const [error, set] = useState();
  const key = useRef();
  const submit = async (e) => {
    e.preventDefault();
    try {
      await login(key.current.value.trim());
      await kept();
      restartStream();
      begun();
    } catch (err) { set(err); }
  };
  return html`<main><h1>Waterclock</h1>
    <form class="filters" onSubmit=${submit}>
      <label>API key or token<input ref=${key} type="password" autocomplete="current-password" required
        autofocus /></label>
      <button class="act">Log in</button>
    </form>
    <${Fault} error=${error && error.status === 401 ? {message: 'This key is not known here.'} : error} />
    <p>The key becomes a cookie that scripts cannot read. It lasts 12 hours, and ends with the key.</p></main>`;
}

function Top({at, who, out}) {
  const box = useRef();
  const search = (e) => {
    e.preventDefault();
    const q = box.current.value.trim();
    if (q) go('search?q=' + encodeURIComponent(q));
  };
  return html`<a class="skip" href="#main">Skip to the page</a>
    <header class="top"><span class="brand">Waterclock</span>
      <nav aria-label="Pages">${pages.filter(([, name]) => name).map(([path, name]) => html`
        <${A} to=${path || './'} aria-current=${at.page === path ? 'page' : undefined}>${name}<//>`)}</nav>
      <form role="search" onSubmit=${search}>
        <input ref=${box} type="search" aria-label="Trigger, user, ce_id or topic/partition/offset"
          placeholder="Trigger, user, ce_id, record" maxlength="1024" />
        <button>Find</button></form>
      <span class="who">${visible(who.actor || 'no log-in')}, ${visible(who.tenant)} (${who.roles.join(', ')})
        ${who.actor ? html` <button type="button" onClick=${out}>Log out</button>` : ''}</span></header>`;
}

function App() {
  const at = useAddress();
  const [round, again] = useState(0);
  const who = useData('v1/whoami#' + round);
  const [said, say] = useState('');
  const main = useRef();
  useEffect(() => {
    const lost = () => again((n) => n + 1);
    addEventListener('unauthenticated', lost);
    return () => removeEventListener('unauthenticated', lost);
  }, []);
  const loaded = useRef(false);
  // A new page is read from its heading, but the first one from its beginning. The focus is there as soon as the page
  // is: moved a moment later, it would take what somebody types at once.
  useLayoutEffect(() => {
    if (!loaded.current) { loaded.current = true; return; }
    const title = main.current && main.current.querySelector('h1');
    if (title) { title.tabIndex = -1; title.focus(); }
    scrollTo(0, 0);
  }, [at.page, at.query.id, at.query.q]);
  const found = pages.find(([path]) => path === at.page);
  const name = visible(at.query.id || at.query.q || (found && found[1]) || '');
  document.title = [name, 'Waterclock'].filter(Boolean).join(' · ');
  useEffect(() => {
    if (!said) return undefined;
    const timer = setTimeout(() => say(''), 8000);
    return () => clearTimeout(timer);
  }, [said]);
  if (who.error && who.error.status === 401) return html`<${Login} begun=${() => again((n) => n + 1)} />`;
  if (!who.data) {
    return html`<main><h1>Waterclock</h1>${who.error ? html`<${Fault} error=${who.error} reload=${who.reload} />` :
      html`<p class="wait">Reading…</p>`}</main>`;
  }
  const out = async () => {
    try {
      await logout();
      restartStream();
      again((n) => n + 1);
    } catch (err) { say(`You are still logged in. ${err.message}`); }
  };
  const Page = found && found[2];
  return html`<${Top} at=${at} who=${who.data} out=${out} />
    <main id="main" ref=${main}>
      ${Page ? html`<${Page} query=${at.query} again=${at.again} who=${who.data} say=${say}
        key=${[at.page, at.query.id || '', who.data.tenant, who.data.actor, who.data.roles].join('?')} />` :
        html`<h1>No such page</h1><p>${'There is no page here. '}<${A} to="./">Begin with Now<//>.</p>`}
    </main>
    <${Held} />
    <div class="said" role="status" aria-live="polite">${visible(said)}</div>`;
}

render(html`<${App} />`, document.body);
