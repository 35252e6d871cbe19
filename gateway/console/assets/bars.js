// A picture of buckets. Keys, the pointer and a finger read its values one by one; a table has the same.
import {html, useMemo, useRef, useState} from './vendor/htm-preact.js';
import {visible} from './parts.js';
import {inZone} from './time.js';

const page = 10; // buckets that Page Up and Page Down move by

// steps are the keys of a slider (WAI-ARIA): where each leads from bucket i of n.
const steps = {
  ArrowRight: (i) => i + 1, ArrowUp: (i) => i + 1, ArrowLeft: (i) => i - 1, ArrowDown: (i) => i - 1,
  PageUp: (i) => i + page, PageDown: (i) => i - page, Home: () => 0, End: (i, n) => n - 1,
};

// Bars shows values(item) for each item, and says(item) of the one that is read. unit spells a value at the axis.
export function Bars({items, value, says, label, unit = (n) => n.toLocaleString('en')}) {
  const [read, set] = useState(); // the time of the bucket that is read: it moves as the picture is read again
  const picture = useRef();
  const last = items.length - 1;
  const wide = items.length > 500 ? 4 : 3; // no space between very many
  const most = Math.max(0, ...items.map(value));
  const top = 2 * Math.ceil(most / 2); // of the axis, so that half of it is a number, too
  const high = (b) => (top ? (96 * value(b)) / top : 0);
  const highest = items.find((b) => value(b) > 0 && value(b) === most);
  const on = items.findIndex((b) => b.at === read);
  const to = (i) => set((items[Math.min(last, Math.max(0, i))] || {}).at);
  const move = (e) => {
    if (!(e.key in steps) || e.ctrlKey || e.altKey || e.metaKey) return;
    e.preventDefault();
    to(on < 0 && e.key !== 'End' ? 0 : steps[e.key](on, items.length));
  };
  const point = (e) => { // a finger reads as it moves along; up and down it scrolls the page
    const {left, width} = picture.current.getBoundingClientRect();
    to(Math.floor((items.length * (e.clientX - left)) / width));
  };
  const bars = useMemo(() => items.map((b, i) => html`<rect x=${i * 4} width=${wide} y=${100 - high(b)}
    height=${high(b)} />`), [items]); // not drawn again for each bucket that is read
  const at = items[on];
  const best = highest && visible(says(highest)); // its line is always there, so that it moves nothing when it comes
  const said = at ? `${inZone(at.at)}: ${visible(says(at))}` :
    'Point at a bar, or move along with the arrow keys, Home and End.';
  const ends = items.length ? [items[0], items[last >> 1], items[last]] : [];
  return html`<div class="chart"><div role="slider" tabindex="0" onKeyDown=${move} onPointerDown=${point}
      onPointerMove=${point} ref=${picture} aria-label=${label} aria-valuemin="0" aria-valuemax=${Math.max(0, last)}
      aria-valuenow=${Math.max(0, on)} aria-valuetext=${said}>
    <svg class="bars" viewBox="0 0 ${Math.max(1, items.length) * 4} 100" preserveAspectRatio="none" aria-hidden="true">
      <path class="grid" d="M0 4H${items.length * 4}M0 52H${items.length * 4}" />
      ${bars}
      ${at ? html`<path class="at" d="M${on * 4} 0h${wide}v100h-${wide}z" />
        <path class="on" d="M${on * 4} 100h${wide}v-${high(at)}h-${wide}z" />` : ''}</svg></div>
    ${top ? html`<span class="whole" aria-hidden="true">${unit(top)}</span>
      <span class="half" aria-hidden="true">${unit(top / 2)}</span>` : ''}
    <div class="axis" aria-hidden="true">${ends.map((b) => html`<span>${inZone(b.at)}</span>`)}</div>
    <p class="reads">${said} <span class="far">${best ? `The highest bar is ${best}.` : ''}</span></p></div>`;
}
