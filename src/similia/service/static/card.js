// An item as people see it: text with the query's words marked, a picture, fields.

import { html, useState } from "./vendor/htm-preact.js";
import { texts } from "./texts.js";

const FOLDED = 600; // characters shown of a long text
const SHORT = 110; // the same in a row of a list
const LONGEST = 200000; // characters that a browser should be asked to lay out

// NUL and the controls that change the direction of what follows become visible signs.
const HIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

export const plain = (text) => String(text).replace(HIDDEN, "\ufffd");

const words = (text) =>
  new Set((text ?? "").toLowerCase().match(/[\p{L}\p{N}]{3,}/gu)?.filter((word) => !texts.unmarked.includes(word)));

// The text in pieces, those that are words of the query in <mark>.
export function Marked({ text, query }) {
  const wanted = words(query);
  if (!wanted.size) return plain(text);
  return plain(text)
    .split(/([\p{L}\p{N}]+)/u)
    .map((piece) => (wanted.has(piece.toLowerCase()) ? html`<mark>${piece}</mark>` : piece));
}

// The start of a text, cut between words.
function start(text, length) {
  if (text.length <= length) return text;
  const cut = text.slice(0, length);
  const space = cut.search(/\s\S*$/u);
  return (space > length / 2 ? cut.slice(0, space) : cut) + " …";
}

export function Card({ item, query, short }) {
  const [open, setOpen] = useState(false);
  const text = (item.text ?? "").slice(0, LONGEST);
  const most = short ? SHORT : FOLDED;
  const shown = open ? text : start(text, most);
  const fields = Object.entries(item.fields ?? {});
  return html`
    <div class=${short && !open ? "card short" : "card"}>
      ${item.image && html`<img src=${item.image} alt=${texts.card.image(item.id)} loading="lazy" />`}
      ${(text || !item.image) &&
      html`<p class="text" dir="auto">
        ${text ? html`<${Marked} text=${shown} query=${query} />` : html`<span class="quiet">${plain(item.id)}</span>`}
      </p>`}
      ${text.length > most &&
      html`<button class="plain" aria-expanded=${open} onClick=${() => setOpen(!open)}>
        ${open ? texts.card.less : texts.card.more}
      </button>`}
      ${fields.length > 0 &&
      html`<dl>
        ${fields.map(([name, value]) => html`<dt>${plain(name)}</dt><dd>${plain(value)}</dd>`)}
      </dl>`}
    </div>
  `;
}

export function QueryHead({ query, like }) {
  const text = query.text ?? like?.text ?? query.id ?? query.item;
  return html`
    <div class="query">
      ${like?.image && html`<img src=${like.image} alt=${texts.card.image(like.id)} />`}
      <p dir="auto">${plain(start(text ?? "", FOLDED))}</p>
    </div>
  `;
}
