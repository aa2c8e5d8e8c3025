// How well it learns, how judges agree, and which generation ranks.

import { html, useEffect, useState } from "./vendor/htm-preact.js";
import { get, post } from "./api.js";
import { plain } from "./card.js";
import { Chart } from "./charts.js";
import { texts } from "./texts.js";

export function Model({ announce, owner }) {
  const [found, setFound] = useState(null);

  async function load() {
    const [status, progress, { models }] = await Promise.all([get("status"), get("judging/progress"), get("models")]);
    setFound({ status, progress, models });
  }

  useEffect(() => {
    load().catch((error) => announce(texts.failed(error.message)));
  }, []);

  async function change(path, body) {
    try {
      const { reason } = await post(path, body);
      await load();
      if (reason) announce(reason);
    } catch (error) {
      announce(texts.failed(error.message));
    }
  }

  if (!found) return html`<section><h1>${texts.model.title}</h1><p class="quiet">${texts.loading}</p></section>`;
  const { status, progress, models } = found;
  return html`
    <section class="model">
      <h1>${texts.model.title}</h1>
      <h2>${texts.model.learnt}</h2>
      <ul class="learnt">${sentences(status).map((one) => html`<li>${plain(one)}</li>`)}</ul>
      <${Chart}
        id="learning-curve" title=${texts.model.curve} text=${texts.model.curveText} rows=${progress.curve} x="judgements"
        series=${[
          { y: "live", low: "low", high: "high", name: texts.model.live },
          { y: "base", name: texts.model.base },
        ]}
      />
      <${Chart} id="per-day" title=${texts.model.day} text=${texts.model.dayText} rows=${progress.days} x="day" series=${[{ y: "judgements" }]} kind="bar" />
      <${Chart}
        id="calibration" title=${texts.model.calibration} text=${texts.model.calibrationText} rows=${progress.calibration} x="predicted"
        series=${[{ y: "observed", low: "low", high: "high" }]} range=${[0, 1]} diagonal
      />
      <h2>${texts.model.agreement}</h2>
      <p>${agreed(progress.agreement)}</p>
      ${progress.judges.length > 0 && html`<${Judges} judges=${progress.judges} />`}
      <${Generations} models=${models} owner=${owner} change=${change} proven=${progress.curve.length > 0} />
    </section>
  `;
}

// What the numbers of the model mean.
function sentences({ judgements, queries, trust, weights, views }) {
  const words = texts.model;
  const [base] = views;
  const found = [words.judged(judgements, queries)];
  if (!("clicks" in trust)) return found;
  found.push(words.clicks(trust.clicks));
  for (const [name, weight] of Object.entries(weights)) {
    const view = views.find((one) => one.name === name);
    const say = name === base?.name ? words.basis : view && view.compared !== false ? words.match : words.field;
    found.push(say(name, Number(weight.toFixed(2))));
  }
  found.push(words.W(trust.W ?? 0));
  return found;
}

function agreed({ alpha, questions }) {
  if (!questions) return texts.model.noAgreement;
  return alpha == null ? texts.model.unanimous(questions) : texts.model.alpha(alpha.toFixed(2), questions);
}

function Judges({ judges }) {
  return html`
    <table>
      <caption>${texts.model.judges}</caption>
      <thead><tr>${texts.model.judgeColumns.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
      <tbody>
        ${judges.map(
          (one) => html`<tr>
            <td>${plain(one.name)}</td><td>${one.answers}</td>
            <td>${one.repeats.asked ? `${one.repeats.right} / ${one.repeats.asked}` : "–"}</td>
            <td>${one.gold.asked ? `${one.gold.right} / ${one.gold.asked}` : "–"}</td>
          </tr>`,
        )}
      </tbody>
    </table>
  `;
}

function Generations({ models, owner, change, proven }) {
  return html`
    <h2>${texts.model.generations}</h2>
    <table>
      <thead><tr>${texts.model.columns.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
      <tbody>
        ${models.map(
          (model) => html`<tr>
            <td>${model.generation || texts.model.base}</td>
            <td>${new Date(model.time).toLocaleString("en")}</td>
            <td>${model.learnt}</td>
            <td>
              ${model.current
                ? "✓"
                : owner && html`<button onClick=${() => change("rollback", { to: model.generation })}>${texts.model.rollback(model.generation)}</button>`}
            </td>
          </tr>`,
        )}
      </tbody>
    </table>
    ${owner &&
    html`<button class="main" disabled=${!proven} aria-describedby="why-not" onClick=${() => change("promote")}>${texts.model.promote}</button>`}
    ${owner && !proven && html`<p id="why-not" class="quiet">${texts.model.noEvidence}</p>`}
  `;
}
