// An item as people see it: text with the query's words marked, a picture, fields.

import { html, useState } from "./vendor/htm-preact.js";
import { texts } from "./texts.js";

const FOLDED = 600; // characters shown of a long text
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

export function Card({ item, query }) {
  const [open, setOpen] = useState(false);
  const text = (item.text ?? "").slice(0, LONGEST);
  const folded = !open && text.length > FOLDED;
  const shown = folded ? text.slice(0, FOLDED) + " …" : text;
  const fields = Object.entries(item.fields ?? {});
  return html`
    <div class="card">
      ${item.image && html`<img src=${item.image} alt=${texts.card.image(item.id)} loading="lazy" />`}
      ${(text || !item.image) &&
      html`<p class="text" dir="auto">
        ${text ? html`<${Marked} text=${shown} query=${query} />` : html`<span class="quiet">${plain(item.id)}</span>`}
      </p>`}
      ${text.length > FOLDED &&
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
      <p dir="auto">${plain(text ?? "").slice(0, FOLDED)}</p>
    </div>
  `;
}
