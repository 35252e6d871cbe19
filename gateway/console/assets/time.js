// Instants in words. Each has its zone with it.
import {html} from './vendor/htm-preact.js';
import {now} from './api.js';

export const ownZone = () => Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC';

const formats = new Map();
function format(zone) {
  if (!formats.has(zone)) {
    formats.set(zone, new Intl.DateTimeFormat('en-CA', {
      timeZone: zone, weekday: 'short', era: 'short', year: 'numeric', month: '2-digit', day: '2-digit',
      hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23',
    }));
  }
  return formats.get(zone);
}

// inZone is an instant in a zone: "Mon 2026-11-30 09:00:00 America/New_York", in any year. A browser counts the years
// before year 1 as an era of their own; here they are 0000 and below, as the API counts.
export function inZone(instant, zone = 'UTC') {
  const at = new Date(instant);
  if (isNaN(at)) return String(instant);
  let parts;
  try {
    parts = Object.fromEntries(format(zone).formatToParts(at).map((p) => [p.type, p.value]));
  } catch { // a zone that this browser does not know
    return inZone(instant, 'UTC');
  }
  const year = parts.era.startsWith('B') ? 1 - parts.year : parts.year;
  return `${parts.weekday} ${String(year).padStart(4, '0')}-${parts.month}-${parts.day} ` +
    `${parts.hour}:${parts.minute}:${parts.second} ${zone}${whichOfTwo(at, zone)}`;
}

const aheadAt = (at, zone) => { // how many ms the clocks of a zone are ahead of UTC
  const p = Object.fromEntries(format(zone).formatToParts(at).map(({type, value}) => [type, value]));
  return Date.UTC(p.year, p.month - 1, p.day, p.hour, p.minute, p.second) - Math.floor(at / 1000) * 1000;
};

const around = 4 * 3600e3; // clocks are put back by less

// whichOfTwo is the offset of a time that clocks show twice, as " (UTC-05:00)"; else nothing.
function whichOfTwo(at, zone) {
  if (zone === 'UTC' || at < Date.UTC(1000, 0)) return '';
  const before = aheadAt(at - around, zone);
  const after = aheadAt(at - -around, zone);
  if (before <= after) return '';
  const ahead = aheadAt(at, zone);
  const other = ahead === before ? after : before;
  if (aheadAt(at - (other - ahead), zone) !== other) return '';
  const minutes = Math.abs(ahead / 60e3);
  const two = (n) => String(Math.floor(n)).padStart(2, '0');
  return ` (UTC${ahead < 0 ? '-' : '+'}${two(minutes / 60)}:${two(minutes % 60)})`;
}

// asSaid is a wall time of the API with the zone of its instant. It is by the server's tz database; that of a browser
// may be another release.
function asSaid(local, instant, zone) {
  const wall = /^[^[+Z]*T\d\d:\d\d:\d\d/.exec(local || '');
  if (!wall) return inZone(instant, zone);
  const here = inZone(instant, zone);
  const said = when(wall[0], zone);
  return here.startsWith(said) ? here : said;
}

const isTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z?)(~\d+-\d+)?$/;

// when is a text drawn as other times are if it is an instant, or a wall time of a zone. Any other text stays as it is:
// not every occurrence is named by a time. Where no zone is known, an instant is in UTC. An occurrence of a key that
// was registered anew ends with ~ and that command's place, which is not drawn.
export function when(text, zone) {
  const [time, , , utc] = isTime.exec(text) || [];
  if (!time) return text;
  const bare = time.replace(/~.*/, '');
  return utc ? inZone(bare, zone) : inZone(bare + 'Z').replace(/UTC$/, zone || 'in its zone');
}

// inZones are the columns of a table of instants: in their zone, in UTC and here, each once. local is what the API says
// of the wall time in their zone.
export function inZones(zone, local) {
  return [...new Set([zone, 'UTC', ownZone()])].map((z) => [
    `${z !== 'UTC' && z !== zone ? 'Here,' : 'In'} ${z}`,
    (o) => (z === zone ? asSaid(local(o), o.at, z) : inZone(o.at, z)),
  ]);
}

// ago is how far an instant is from now: "in 3 h", "20 s ago".
export function ago(instant) {
  const ms = new Date(instant) - now();
  const s = Math.abs(ms) / 1000;
  const text = s < 60 ? `${Math.round(s)} s` : s < 5400 ? `${Math.round(s / 60)} min` :
    s < 129600 ? `${Math.round(s / 3600)} h` : `${Math.round(s / 86400)} d`;
  return ms >= 0 ? `in ${text}` : `${text} ago`;
}

const inTwo = (s, large, largeName, small, smallName) => {
  const rest = Math.floor((s % large) / small);
  return `${Math.floor(s / large)} ${largeName}${rest ? ` ${rest} ${smallName}` : ''}`;
};

// took is a duration in words, with its two largest units: 12 ms, 1.5 s, 5 min 1 s, 2 h, 3 d 4 h. Sentences of the API
// have the same words (gateway/explain/times.go).
export function took(ms) {
  const s = Math.max(0, ms) / 1000;
  if (s < 1) return `${Math.floor(Math.max(0, ms))} ms`;
  if (s < 60) return `${Math.floor(s * 10) / 10} s`;
  if (s < 3600) return inTwo(s, 60, 'min', 1, 's');
  return s < 86400 ? inTwo(s, 3600, 'h', 60, 'min') : inTwo(s, 86400, 'd', 3600, 'h');
}

export const At = ({at, zone = 'UTC', local, far = true}) => (at ?
  html`<time datetime=${at}>${asSaid(local, at, zone)}${
    far ? html` <span class="far">(${ago(at)})</span>` : ''}</time>` : html`<span class="none">none</span>`);

// NextOf is when a trigger fires next. What the API says of the wall time is of the plan, without jitter and snoozes.
export const NextOf = ({of: t}) => html`<${At} at=${t.next_fire_at} zone=${t.timezone || 'UTC'}
  local=${t.next_fire_at === t.fire_at ? t.local_time : ''} />`;
