// One query, ranked by the base and by what was learnt: what moved, and why.

import { html, useEffect, useState } from "./vendor/htm-preact.js";
import { contents, post } from "./api.js";
import { Card, plain } from "./card.js";
import { newId } from "./outbox.js";
import { handed, QueryChoice } from "./query.js";
import { texts } from "./texts.js";

const SHOWN = 10;

export function Search({ announce }) {
  const [found, setFound] = useState(null);
  const [tab, setTab] = useState("after");

  async function search(query, seq) {
    try {
      const asked = { query, k: SHOWN, explain: true, min_seq: seq };
      const [before, after] = await Promise.all([
        post("rank", { query, k: SHOWN, model: "base" }),
        post("rank", asked),
      ]);
      const ids = [...new Set([...before.results, ...after.results].map((result) => result.id))];
      const items = new Map((await contents(ids)).map((item) => [item.id, item]));
      setFound({ query, byWords: after.model === "text", before: before.results, after: after.results, items });
      if (!after.results.length) announce(texts.search.nothing);
    } catch (error) {
      announce(texts.failed(error.message));
    }
  }

  async function prefer(better, worse) {
    try {
      const judgement = { id: newId(), kind: "triplet", query: found.query, better, worse, source: "search" };
      const { results } = await post("feedback", judgement);
      await search(found.query, results[0].seq);
    } catch (error) {
      announce(texts.failed(error.message));
    }
  }

  function judgeThese() {
    handed.query = found.query;
    location.hash = "#/lists";
  }

  return html`
    <section>
      <h1>${texts.search.title}</h1>
      <${QueryChoice} choose=${(query) => query && search(query)} announce=${announce} />
      ${found?.byWords && html`<${ByWords} found=${found} search=${search} />`}
      ${found &&
      !found.byWords &&
      html`
        <div class="tabs" role="group" aria-label=${texts.search.title}>
          ${["before", "after"].map(
            (name) => html`<button aria-pressed=${tab === name} onClick=${() => setTab(name)}>${texts.search.tabs[name]}</button>`,
          )}
        </div>
        <div class=${`compare only-${tab}`}>
          <h2 id="before">${texts.search.before}</h2>
          <h2 id="after">${texts.search.after}</h2>
          <ol aria-labelledby="before" class="results">
            ${found.before.map(
              (result) => html`<li key=${result.id} data-before=${result.id}><${Card} short item=${found.items.get(result.id)} query=${found.query.text} /></li>`,
            )}
          </ol>
          <${Lines} found=${found} />
          <ol aria-labelledby="after" class="results">
            ${found.after.map(
              (result, place) => html`
                <li key=${result.id} data-item=${result.id}>
                  <${Card} short item=${found.items.get(result.id)} query=${found.query.text} />
                  <div class="tools">
                    <${Moved} before=${found.before} id=${result.id} place=${place} />
                    <${Why} result=${result} />
                    ${place > 0 &&
                    html`<button class="plain" aria-label=${texts.search.better} title=${texts.search.better} onClick=${() => prefer(result.id, found.after[place - 1].id)}>
                      ↑
                    </button>`}
                  </div>
                </li>
              `,
            )}
          </ol>
        </div>
        <p>
          <button class="main" onClick=${judgeThese}>${texts.search.judgeThese}</button>
        </p>
      `}
    </section>
  `;
}

// Words alone have no vectors to learn with: what they find can be searched with.
function ByWords({ found, search }) {
  return html`
    <h2 id="by-words">${texts.search.byWords}</h2>
    <p class="quiet">${texts.search.byWordsWhy}</p>
    <ol aria-labelledby="by-words" class="results">
      ${found.after.map(
        (result) => html`
          <li key=${result.id} data-item=${result.id}>
            <${Card} item=${found.items.get(result.id)} query=${found.query.text} />
            <button class="plain" onClick=${() => search({ item: result.id })}>${texts.search.likeThis}</button>
          </li>
        `,
      )}
    </ol>
  `;
}

// Lines from where items were to where they are; rows of both lists are as high as each other.
function Lines({ found }) {
  const [lines, setLines] = useState({ height: 0, paths: [] });

  useEffect(() => {
    const whole = document.querySelector(".compare");
    const measure = () => {
      const top = whole.querySelector("ol").getBoundingClientRect().top;
      const middle = (name, id) => {
        const row = [...whole.querySelectorAll("li")].find((one) => one.dataset[name] === id)?.getBoundingClientRect();
        return row && row.height ? row.top + row.height / 2 - top : null;
      };
      const paths = found.after.map(({ id }, place) => {
        const old = found.before.findIndex((result) => result.id === id);
        return { from: middle("before", id), to: middle("item", id), way: old < 0 || old > place ? "up" : old < place ? "down" : "same" };
      });
      setLines({ height: whole.querySelector("ol").getBoundingClientRect().height, paths });
    };
    const watching = new ResizeObserver(measure);
    watching.observe(whole);
    return () => watching.disconnect();
  }, [found]);

  return html`
    <svg class="lines" aria-hidden="true" viewBox=${`0 0 60 ${lines.height || 1}`} preserveAspectRatio="none">
      ${lines.paths.map(({ from, to, way }) =>
        from === null || to === null
          ? to !== null && html`<circle class=${way} cx="54" cy=${to} r="4" />`
          : html`<path class=${way} d=${`M 2 ${from} C 30 ${from} 30 ${to} 52 ${to}`} /><circle class=${way} cx="54" cy=${to} r="3" />`,
      )}
    </svg>
  `;
}

function Moved({ before, id, place }) {
  const old = before.findIndex((result) => result.id === id);
  const words = texts.search.moved;
  if (old < 0) return html`<span class="moved up">${words.new}</span>`;
  if (old === place) return html`<span class="hidden">${words.same}</span>`;
  return old > place
    ? html`<span class="moved up">▲ ${words.up(old - place)}</span>`
    : html`<span class="moved down">▼ ${words.down(place - old)}</span>`;
}

function Why({ result }) {
  const parts = Object.entries(result.parts ?? {});
  const behind = result.judgements ?? [];
  return html`
    <details>
      <summary>${texts.search.why}</summary>
      <div class="pop">
      <table>
        <thead><tr><th>${texts.search.part}</th><th>${texts.search.adds}</th></tr></thead>
        <tbody>
          ${parts.map(([name, value]) => html`<tr><td>${texts.search.parts[name] ?? plain(name)}</td><td>${value.toFixed(3)}</td></tr>`)}
        </tbody>
      </table>
      ${result.parts?.decisions ? html`<p>${texts.search.decided}</p>` : null}
      <p>${behind.length ? texts.search.judgements : texts.search.noJudgements}</p>
      ${behind.length > 0 && html`<ul>${behind.map(([id, value]) => html`<li><code>${plain(id)}</code> ${value.toFixed(3)}</li>`)}</ul>`}
      </div>
    </details>
  `;
}
