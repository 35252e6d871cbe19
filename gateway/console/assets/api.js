// The API, as the pages use it: the same routes, with the same rights, as any other client.

// This file stands at <root>/console/assets/<hash>/api.js.
export const root = new URL('../../../', import.meta.url);
export const home = new URL('console/', root);

// Problem is an answer that is no success, or none.
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title || `status ${status}`);
    this.status = status;
    this.code = body.code || '';
    this.field = body.field || '';
  }
}

// skew is how many milliseconds the server's clock is ahead of the browser's.
let skew = 0;
export const now = () => Date.now() + skew;

// setSkew notes the server's time.
function setSkew(at) {
  if (at) skew = Math.abs(at - Date.now()) > 2000 ? at - Date.now() : 0;
}

// first is what the page has with it: answers of the API, each good once and for a moment.
const first = JSON.parse(document.getElementById('first').textContent);
const firstFor = 15000;
setSkew(Date.parse(first.at || ''));

function firstAnswer(path) {
  const [asked] = path.split('#');
  if (!first.answers || !(asked in first.answers) || performance.now() > firstFor) return undefined;
  const answer = first.answers[asked];
  delete first.answers[asked];
  return answer;
}

// patience is how many milliseconds the server has for an answer. When a network is cut, a browser learns nothing of
// it, and would wait for ever.
const patience = 15000;

// lost is what one knows without an answer: a read may be repeated, an act may have happened.
const lost = (method) => new Problem(0, {
  detail: method === 'GET' ? 'The server does not answer.' :
    'The server does not answer: it may have happened, or not. Read it again before you repeat it.',
  code: 'unreachable',
});

// json is JSON as it is sent. A string is JSON already.
export const json = (value) => (typeof value === 'string' ? value : JSON.stringify(value));

export const call = async (...asked) => (await ask(...asked)).value;

// ask is call, for whoever needs more of the answer than its value.
export async function ask(method, path, body, more = {}) {
  const headers = {accept: 'application/json', ...more.headers};
  if (body !== undefined) headers['content-type'] = more.type || 'application/json';
  const late = new AbortController();
  let timer;
  const wait = () => { clearTimeout(timer); timer = setTimeout(() => late.abort(), patience); };
  wait();
  const give = () => late.abort();
  if (more.signal) more.signal.addEventListener('abort', give, {once: true});
  let answer;
  let text = '';
  try {
    answer = await fetch(new URL(path, root), {
      method, headers, body: body === undefined ? undefined : json(body), signal: late.signal,
      cache: 'no-store', credentials: 'same-origin',
    });
    const parts = answer.body && answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let part; parts && !(part = await parts.read()).done;) { // as long as something comes
      text += part.value;
      wait();
    }
  } catch (err) {
    if (more.signal && more.signal.aborted) throw err;
    throw lost(method);
  } finally {
    clearTimeout(timer);
    if (more.signal) more.signal.removeEventListener('abort', give);
  }
  setSkew(Date.parse(answer.headers.get('date') || ''));
  let value = text;
  try { value = text === '' ? {} : JSON.parse(text); } catch { /* not JSON: the text itself */ }
  if (!answer.ok) throw new Problem(answer.status, typeof value === 'object' ? value : {detail: value});
  return {status: answer.status, text, value};
}

export const get = async (path, signal) => firstAnswer(path) || call('GET', path, undefined, {signal});

// query makes a query string of what is set.
export function query(fields) {
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) if (value !== undefined && value !== '') q.set(name, value);
  const text = q.toString();
  return text === '' ? '' : '?' + text;
}

export const trigger = (id, rest = '') => 'v1/triggers/' + encodeURIComponent(id) + rest;

// forget drops the answers that the page has with it: they are for who asked for the document.
export const forget = () => { delete first.answers; };

export async function login(credential) {
  forget();
  return call('POST', 'console/session', undefined, {headers: {authorization: 'Bearer ' + credential}});
}

export const logout = () => call('DELETE', 'console/session');
