// Plots as SVG: a title and a description for screen readers, the numbers as a table and as CSV.

import { html, useMemo } from "./vendor/htm-preact.js";
import { texts } from "./texts.js";

const WIDTH = 640;
const HEIGHT = 260;
const APART = 70; // least distance between two labels of the lower axis
const EDGE = { left: 52, right: 16, top: 12, bottom: 34 };

const scale = (low, high, from, to) => (value) =>
  high === low ? (from + to) / 2 : from + ((value - low) / (high - low)) * (to - from);

function ticks(low, high, count = 5) {
  if (high === low) return [low];
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step / 1e6; value += step) found.push(value);
  return found;
}

const short = (value) => (Math.abs(value) >= 1000 ? value.toLocaleString("en") : String(Number(value.toPrecision(3))));

// rows: objects; x: the name of a column; series: [{ y, low, high, name }]; kind: "line" or "bar".
export function Chart({ id, title, text, rows, x, series, kind = "line", range, diagonal }) {
  const columns = [x, ...series.flatMap(({ y, low, high }) => [y, low, high].filter(Boolean))];
  if (!rows.length) {
    return html`<figure><h2>${title}</h2><p class="quiet">${texts.model.empty}</p></figure>`;
  }
  return html`
    <figure>
      <h2 id=${`${id}-title`}>${title}</h2>
      <${Drawing} ...${{ id, text, rows, x, series, kind, range, diagonal }} />
      ${series.length > 1 &&
      html`<ul class="legend">${series.map(({ name }, i) => html`<li class=${`series-${i}`}>${name}</li>`)}</ul>`}
      <figcaption>${text}</figcaption>
      <details>
        <summary>${texts.model.table}</summary>
        <table>
          <thead><tr>${columns.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
          <tbody>
            ${rows.map((row) => html`<tr>${columns.map((name) => html`<td>${typeof row[name] === "number" ? short(row[name]) : row[name]}</td>`)}</tr>`)}
          </tbody>
        </table>
      </details>
      <${Download} name=${`${id}.csv`} columns=${columns} rows=${rows} />
    </figure>
  `;
}

function Drawing({ id, text, rows, x, series, kind, range, diagonal }) {
  const places = rows.map((row, i) => (typeof row[x] === "number" ? row[x] : i));
  const values = rows.flatMap((row) => series.flatMap(({ y, low, high }) => [row[y], row[low], row[high]]));
  const known = values.filter((value) => typeof value === "number");
  const [least, most] = range ?? [kind === "bar" ? 0 : Math.min(...known), Math.max(...known)];
  const across = scale(Math.min(...places), Math.max(...places), EDGE.left + (kind === "bar" ? 14 : 0), WIDTH - EDGE.right - (kind === "bar" ? 14 : 0));
  const up = scale(least, most, HEIGHT - EDGE.bottom, EDGE.top);
  const named = []; // rows with a label, from the last one back
  for (let i = rows.length - 1; i >= 0; i--) {
    if (!named.length || across(places[named.at(-1)]) - across(places[i]) >= APART) named.push(i);
  }
  return html`
    <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-labelledby=${`${id}-title ${id}-text`}>
      <desc id=${`${id}-text`}>${text}</desc>
      ${ticks(least, most).map(
        (value) => html`
          <line class="grid" x1=${EDGE.left} x2=${WIDTH - EDGE.right} y1=${up(value)} y2=${up(value)} />
          <text x=${EDGE.left - 8} y=${up(value) + 4} text-anchor="end">${short(value)}</text>
        `,
      )}
      ${diagonal && html`<line class="diagonal" x1=${across(Math.min(...places))} y1=${up(Math.min(...places))} x2=${across(Math.max(...places))} y2=${up(Math.max(...places))} />`}
      ${named.map((i) => html`<text x=${across(places[i])} y=${HEIGHT - 12} text-anchor="middle">${typeof rows[i][x] === "number" ? short(rows[i][x]) : rows[i][x]}</text>`)}
      ${series.map((one, i) =>
        kind === "bar"
          ? rows.map((row, j) => html`<rect class=${`series-${i}`} x=${across(places[j]) - 8} width="16" y=${up(row[one.y])} height=${up(least) - up(row[one.y])} />`)
          : html`
              ${one.low && html`<polygon class=${`band series-${i}`} points=${band(rows, places, one, across, up)} />`}
              <polyline class=${`line series-${i}`} points=${rows.map((row, j) => `${across(places[j])},${up(row[one.y])}`).join(" ")} />
              ${rows.map((row, j) => html`<circle class=${`series-${i}`} cx=${across(places[j])} cy=${up(row[one.y])} r="3" />`)}
            `,
      )}
    </svg>
  `;
}

function band(rows, places, { low, high }, across, up) {
  const there = rows.map((row, j) => `${across(places[j])},${up(row[high])}`);
  const back = rows.map((row, j) => `${across(places[j])},${up(row[low])}`).reverse();
  return [...there, ...back].join(" ");
}

// A cell that a spreadsheet would take for a formula gets a quote in front.
function cell(value) {
  const text = String(value ?? "");
  const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function Download({ name, columns, rows }) {
  const address = useMemo(() => {
    const lines = [columns, ...rows.map((row) => columns.map((column) => row[column]))];
    const content = lines.map((line) => line.map(cell).join(",")).join("\r\n");
    return `data:text/csv;charset=utf-8,${encodeURIComponent(content)}`;
  }, [columns, rows]);
  return html`<a class="download" href=${address} download=${name}>${texts.model.csv}</a>`;
}
