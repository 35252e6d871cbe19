// A picture of buckets. An arrow key moves along it and says what is there; a table has the same.
import {html, useState} from './vendor/htm-preact.js';
import {visible} from './parts.js';
import {inZone} from './time.js';

// Bars shows values(item) for each item, and says(item) of the one that the keys are at.
export function Bars({items, value, says, label}) {
  const [on, set] = useState(-1);
  const wide = items.length > 500 ? 4 : 3; // no space between very many
  const most = Math.max(1, ...items.map(value));
  const high = (b) => (96 * value(b)) / most;
  const highest = items.find((b) => value(b) > 0 && value(b) === most);
  const move = (e) => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[e.key];
    if (!step) return;
    e.preventDefault();
    set((i) => Math.min(items.length - 1, Math.max(0, i + step)));
  };
  const at = items[Math.min(on, items.length - 1)];
  const best = highest && visible(says(highest));
  const said = at ? `${inZone(at.at)}: ${visible(says(at))}` : 'Move along with the arrow keys.';
  return html`<div><div role="slider" tabindex="0" onKeyDown=${move} aria-label=${label} aria-valuemin="0"
      aria-valuemax=${items.length - 1} aria-valuenow=${Math.max(0, on)} aria-valuetext=${said}>
    <svg class="bars" viewBox="0 0 ${items.length * 4} 100" preserveAspectRatio="none" aria-hidden="true">
      ${items.map((b, i) => html`<rect x=${i * 4} width=${wide} y=${100 - high(b)} height=${high(b)}
        class=${i === on ? 'on' : ''} />`)}</svg></div>
    <p>${said} ${best ? html`<span class="far">The highest bar is ${best}.</span>` : ''}</p></div>`;
}
