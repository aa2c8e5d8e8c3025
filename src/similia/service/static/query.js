// A query to search with: words, an item, or one that the service knows.

import { html, useEffect, useState } from "./vendor/htm-preact.js";
import { get } from "./api.js";
import { plain } from "./card.js";
import { texts } from "./texts.js";

const OFFERED = 200;

// The query that one page leaves to the next.
export const handed = { query: null };

export function QueryChoice({ choose, announce, label }) {
  const [kind, setKind] = useState("known");
  const [text, setText] = useState("");
  const [known, setKnown] = useState([]);

  useEffect(() => {
    get(`judging/queries?limit=${OFFERED}`)
      .then(({ queries }) => {
        setKnown(queries);
        if (queries.length) setText(key(queries[0]));
        else setKind("text");
      })
      .catch((error) => announce(texts.failed(error.message)));
  }, []);

  function submit(event) {
    event.preventDefault();
    if (kind === "known") choose(known.find((query) => key(query) === text));
    else if (text.trim()) choose({ [kind]: text.trim() });
  }

  function change(next) {
    setKind(next);
    setText(next === "known" && known.length ? key(known[0]) : "");
  }

  return html`
    <form class="query-choice" onSubmit=${submit}>
      <fieldset>
        <legend>${label ?? texts.search.query}</legend>
        ${Object.entries(texts.search.kinds).map(
          ([name, words]) => html`
            <label>
              <input type="radio" name="kind" checked=${kind === name} onChange=${() => change(name)} disabled=${name === "known" && !known.length} />
              ${words}
            </label>
          `,
        )}
      </fieldset>
      ${kind === "known"
        ? html`<select aria-label=${texts.search.kinds.known} value=${text} onChange=${(event) => setText(event.target.value)}>
            ${known.map((query) => html`<option value=${key(query)}>${plain(query.text ?? query.id ?? query.item).slice(0, 100)}</option>`)}
          </select>`
        : html`<input aria-label=${texts.search.kinds[kind]} value=${text} onInput=${(event) => setText(event.target.value)} />`}
      <button class="main">${texts.search.go}</button>
    </form>
  `;
}

const key = (query) => JSON.stringify([query.id, query.item, query.text]);
