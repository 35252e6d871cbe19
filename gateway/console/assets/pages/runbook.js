// Runbook: what to do about an alert, or about what a page shows?
import {html} from '../vendor/htm-preact.js';
import {A, Fault, Table, Twins, curl, useData} from '../parts.js';

// slug is what a link to a heading calls it.
const slug = (heading) => heading.toLowerCase().replace(/[^\w\s-]/g, '').trim().replaceAll(' ', '-');

// runbookPage is the address of an entry.
export const runbookPage = (entry) => 'runbook?entry=' + encodeURIComponent(entry);

// ToRunbook is a link to an entry.
export const ToRunbook = ({entry, children}) => html`<${A} to=${runbookPage(entry)}>${children || 'What to do'}<//>`;

// entries splits the document at its headings of the second level.
function entries(text) {
  return text.split(/^## /m).slice(1).map((part) => {
    const [heading, ...lines] = part.split('\n');
    return {id: slug(heading), heading, blocks: blocksOf(lines)};
  });
}

// blocksOf splits lines into paragraphs, tables, code and lists. A list within a list, or code, ends the outer one,
// which then goes on with the number that is written there.
function blocksOf(lines) {
  const blocks = [];
  let block, code;
  const begin = (kind, more) => blocks.push(block = {kind, lines: [], ...more});
  for (const line of lines) {
    const item = /^( *)(\*|\d+\.) (.*)/.exec(line);
    const fence = /^( *)```/.exec(line);
    if (fence) {
      code = code ? undefined : fence;
      if (code) begin('code');
      else block = undefined;
    } else if (code) {
      block.lines.push(line.slice(code[1].length));
    } else if (line.trim() === '') {
      block = undefined;
    } else if (item) {
      const [, {length: indent}, mark, text] = item;
      const kind = mark === '*' ? 'ul' : 'ol';
      if (block?.kind !== kind || block.indent !== indent) begin(kind, {indent, start: parseInt(mark, 10)});
      block.lines.push(text);
    } else if (block?.lines.length && block.indent !== undefined && line.startsWith(' ')) {
      block.lines.push(block.lines.pop() + ' ' + line.trim());
    } else {
      const kind = line.startsWith('|') ? 'table' : 'text';
      if (block?.kind !== kind) begin(kind);
      block.lines.push(line.trim());
    }
  }
  return blocks;
}

// Inline is a text with code and links. Links to other documents stay text: they are not in the program.
function Inline({text}) {
  return text.split(/(`[^`]+`|\[[^\]]+\]\([^)]+\)|\*\*[^*]+\*\*)/).map((part) => {
    const link = /^\[([^\]]+)\]\(([^)]+)\)$/.exec(part);
    if (link) {
      return link[2].startsWith('#') ? html`<${ToRunbook} entry=${link[2].slice(1)}>${link[1]}<//>` : link[1];
    }
    if (part.startsWith('`')) return html`<code>${part.slice(1, -1)}</code>`;
    return part.startsWith('**') ? html`<strong>${part.slice(2, -2)}</strong>` : part;
  });
}

const cells = (line) => line.split(/(?<!\\)\|/).slice(1, -1).map((c) => c.trim().replaceAll('\\|', '|'));

function Block({block: {kind, lines, start}, of}) {
  switch (kind) {
    case 'code': return html`<pre><code>${lines.join('\n')}</code></pre>`;
    case 'ul': return html`<ul>${lines.map((text) => html`<li><${Inline} text=${text} /></li>`)}</ul>`;
    case 'ol': return html`<ol start=${start}>${lines.map((text) => html`<li><${Inline} text=${text} /></li>`)}</ol>`;
    case 'table': {
      const [head, , ...rows] = lines.map(cells);
      return html`<${Table} caption=${of} rows=${rows} columns=${head.map((name, i) => [name, (row) =>
        html`<${Inline} text=${row[i] || ''} />`])} />`;
    }
    default: return html`<p><${Inline} text=${lines.join(' ')} /></p>`;
  }
}

const path = new URL('../runbook.md', import.meta.url).href; // it needs no log-in
let kept = ''; // the document, once it was read: it is that of this version

// whyNot says why it cannot be read. What a proxy answers instead is no text for people.
const whyNot = (error) => (error.status === 0 ? error.message : error.status === 404 ?
  'This page is of another version of Waterclock. Load it anew.' : 'The runbook cannot be read.');

export function Runbook({query}) {
  const read = useData(kept ? '' : path);
  const text = kept = kept || read.data || '';
  const all = entries(text);
  const shown = query.entry ? all.filter((e) => e.id === query.entry) : all;
  return html`<article><h1>Runbook</h1>
    ${query.entry ? html`<p><${A} to="runbook">All entries<//></p>` : ''}
    <${Fault} error=${!text && read.error && {message: whyNot(read.error)}} reload=${read.reload} />
    ${text || read.error ? '' : html`<p class="wait">Reading…</p>`}
    ${text && shown.length === 0 ? html`<p class="none">There is no such entry.</p>` : ''}
    ${shown.map((e) => html`<section key=${e.id}><h2 id=${e.id}>${e.heading}</h2>
      ${e.blocks.map((block, i) => html`<${Block} block=${block}
        of=${i ? `${e.heading}, part ${i + 1}` : e.heading} />`)}
      </section>`)}
    <${Twins} lines=${['waterclock doctor', curl({}, path)]} /></article>`;
}
