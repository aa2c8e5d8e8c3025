// A ranked list to grade, to put in order, or to complete.

import { html, useEffect, useState } from "./vendor/htm-preact.js";
import { contents, post } from "./api.js";
import { Card, plain } from "./card.js";
import { newId } from "./outbox.js";
import { handed, QueryChoice } from "./query.js";
import { texts } from "./texts.js";

const SHOWN = 10;

export function Lists({ announce }) {
  const [query, setQuery] = useState(handed.query);
  const [items, setItems] = useState([]);
  const [grades, setGrades] = useState({});
  const [missing, setMissing] = useState("");
  const [dragged, setDragged] = useState(null);

  async function show(asked, seq) {
    const ranking = await post("rank", { query: asked, k: SHOWN, min_seq: seq });
    setItems(await contents(ranking.results.map((found) => found.id)));
    setGrades({});
  }

  useEffect(() => {
    if (query) show(query).catch((error) => announce(texts.failed(error.message)));
  }, [query]);

  function move(from, to) {
    if (to < 0 || to >= items.length || from === to) return;
    const changed = [...items];
    changed.splice(to, 0, ...changed.splice(from, 1));
    setItems(changed);
    announce(texts.lists.moved(changed[to].id, to + 1));
  }

  async function add(event) {
    event.preventDefault();
    const id = missing.trim();
    if (!id) return;
    const [item] = await contents([id]).catch((error) => {
      announce(texts.failed(error.message));
      return [];
    });
    if (!item) return;
    if (item.unknown) {
      announce(texts.lists.unknown(id));
      return;
    }
    setItems([item, ...items.filter((other) => other.id !== id)]);
    setGrades({ ...grades, [id]: texts.lists.grades.length - 1 });
    setMissing("");
  }

  async function save(found) {
    try {
      const { results } = await post("feedback", { id: newId(), kind: "grades", query, grades: found, source: "list" });
      await show(query, results[0].seq);
      announce(texts.lists.saved);
    } catch (error) {
      announce(texts.failed(error.message));
    }
  }

  // An order is a grade for each place: the first item has the highest one.
  const order = () => Object.fromEntries(items.map((item, i) => [item.id, items.length - 1 - i]));

  return html`
    <section>
      <h1>${texts.lists.title}</h1>
      <p class="quiet">${texts.lists.intro}</p>
      <${QueryChoice} choose=${setQuery} announce=${announce} label=${texts.lists.choose} />
      ${query &&
      html`
        <ol class="graded">
          ${items.map(
            (item, i) => html`
              <li
                key=${item.id}
                draggable="true"
                class=${dragged === i ? "dragged" : ""}
                onDragStart=${(event) => {
                  event.dataTransfer.setData("text/plain", item.id);
                  event.dataTransfer.effectAllowed = "move";
                  setDragged(i);
                }}
                onDragEnd=${() => setDragged(null)}
                onDragOver=${(event) => event.preventDefault()}
                onDrop=${(event) => {
                  event.preventDefault();
                  if (dragged !== null) move(dragged, i);
                }}
              >
                <${Card} brief item=${item} query=${query.text} />
                <div class="tools">
                  <button onClick=${() => move(i, i - 1)} aria-label=${texts.lists.up(item.id)}>↑</button>
                  <button onClick=${() => move(i, i + 1)} aria-label=${texts.lists.down(item.id)}>↓</button>
                  <${Grade} item=${item} grade=${grades[item.id]} set=${(grade) => setGrades({ ...grades, [item.id]: grade })} />
                </div>
              </li>
            `,
          )}
        </ol>
        <form onSubmit=${add}>
          <label>${texts.lists.missing}
            <input value=${missing} placeholder=${texts.lists.missingHint} onInput=${(event) => setMissing(event.target.value)} />
          </label>
          <button>${texts.lists.add}</button>
        </form>
        <p class="tools">
          <button class="main" disabled=${!Object.keys(grades).length} onClick=${() => save(grades)}>${texts.lists.save}</button>
          <button onClick=${() => save(order())}>${texts.lists.order}</button>
        </p>
      `}
    </section>
  `;
}

function Grade({ item, grade, set }) {
  return html`
    <fieldset>
      <legend class="hidden">${plain(item.id)}</legend>
      ${texts.lists.grades.map(
        (name, value) => html`
          <label>
            <input type="radio" name=${`grade-${item.id}`} checked=${grade === value} onChange=${() => set(value)} />
            ${name}
          </label>
        `,
      )}
    </fieldset>
  `;
}
