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
        series=${[{ y: "observed", low: "low", high: "high" }]} range=${[0, 1]}
      />
      <h2>${texts.model.agreement}</h2>
      <p>${agreed(progress.agreement)}</p>
      ${progress.judges.length > 0 && html`<${Judges} judges=${progress.judges} />`}
      <h2>${texts.model.trust}</h2>
      <dl>${Object.entries(status.trust).map(([name, value]) => html`<dt>${plain(name)}</dt><dd>${value.toFixed(2)}</dd>`)}</dl>
      <${Generations} models=${models} owner=${owner} change=${change} />
    </section>
  `;
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

function Generations({ models, owner, change }) {
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
    ${owner && html`<button class="main" onClick=${() => change("promote")}>${texts.model.promote}</button>`}
  `;
}
