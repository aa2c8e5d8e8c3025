// An item as people see it: text with the query's words marked, a picture, fields.

import { html, useState } from "./vendor/htm-preact.js";
import { texts } from "./texts.js";

const FOLDED = 500; // characters shown of a long text
const NARROW = 200; // the same on a phone, and in a list to grade
const SHORT = 110; // in a row of a search, where a title is cut sooner
const TITLE = 46;
const LONGEST_TITLE = 200; // longer first lines are texts
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

// A first line with more below it is a title.
function parts(text) {
  const end = text.indexOf("\n");
  return end > 0 && end <= LONGEST_TITLE ? [text.slice(0, end), text.slice(end + 1)] : ["", text];
}

const narrow = () => matchMedia("(max-width: 42rem)").matches;

// `short`: a row of a search; `brief`: an item of a list to grade.
export function Card({ item, query, short, brief }) {
  const [open, setOpen] = useState(false);
  const [title, text] = parts((item.text ?? "").slice(0, LONGEST));
  const row = short && !open;
  const most = short ? (title ? 0 : SHORT) : brief || narrow() ? NARROW : FOLDED;
  const heading = row ? start(title, narrow() ? SHORT : TITLE) : title;
  const shown = open ? text : most ? start(text, most) : "";
  const fields = Object.entries(item.fields ?? {});
  if (short) fields.sort(([, a], [, b]) => (typeof b === "number") - (typeof a === "number")); // there is room for few
  return html`
    <div class=${row ? "card short" : "card"}>
      ${item.image && html`<img src=${item.image} alt=${texts.card.image(item.id)} loading="lazy" />`}
      ${title && html`<p class="title" dir="auto"><${Marked} text=${heading} query=${query} /></p>`}
      ${shown && html`<p class="text" dir="auto"><${Marked} text=${shown} query=${query} /></p>`}
      ${!title && !text && !item.image && html`<p class="text quiet">${plain(item.id)}</p>`}
      <div class="facts">
        ${fields.length > 0 &&
        html`<dl>
          ${fields.map(([name, value]) => html`<div><dt>${plain(name)}</dt><dd>${plain(value)}</dd></div>`)}
        </dl>`}
        ${text.length > most &&
        html`<button class="plain" aria-expanded=${open} aria-label=${texts.card[open ? "less" : "more"]} title=${texts.card[open ? "less" : "more"]} onClick=${() => setOpen(!open)}>
          ${row ? "⋯" : open ? texts.card.less : texts.card.more}
        </button>`}
      </div>
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
