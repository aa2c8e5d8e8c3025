// Who may do what: an owner invites judges by links.

import { html, useEffect, useState } from "./vendor/htm-preact.js";
import { call, get, post, session } from "./api.js";
import { plain } from "./card.js";
import { texts } from "./texts.js";

export function People({ announce, keyed }) {
  const [keys, setKeys] = useState(null);
  const [name, setName] = useState("");
  const [link, setLink] = useState(null);

  const load = () => get("keys").then((found) => setKeys(found.keys));

  useEffect(() => {
    if (keyed) load().catch((error) => announce(texts.failed(error.message)));
  }, [keyed]);

  async function invite(event) {
    event.preventDefault();
    try {
      const made = await post("keys", { scopes: ["feedback"], judge: name.trim(), name: name.trim() });
      setLink(`${location.origin}/#key=${encodeURIComponent(made.key)}&tenant=${encodeURIComponent(session.tenant)}`);
      setName("");
      await load();
    } catch (error) {
      announce(texts.failed(error.message));
    }
  }

  async function revoke(id) {
    try {
      await call("DELETE", `keys/${encodeURIComponent(id)}`);
      await load();
    } catch (error) {
      announce(texts.failed(error.message));
    }
  }

  return html`
    <section>
      <h1>${texts.people.title}</h1>
      ${!keyed
        ? html`<p>${texts.people.local}</p>`
        : html`
            <form onSubmit=${invite}>
              <label>${texts.people.name} <input required value=${name} onInput=${(event) => setName(event.target.value)} /></label>
              <button class="main">${texts.people.make}</button>
            </form>
            ${link && html`<p>${texts.people.link}</p><p><code class="link">${link}</code></p>`}
            ${keys && !keys.length && html`<p class="quiet">${texts.people.none}</p>`}
            ${keys?.length > 0 && html`<${Keys} keys=${keys} revoke=${revoke} />`}
          `}
    </section>
  `;
}

function Keys({ keys, revoke }) {
  return html`
    <table>
      <caption>${texts.people.title}</caption>
      <thead><tr>${texts.people.columns.map((column) => html`<th scope="col">${column || html`<span class="hidden">${texts.people.revoke("")}</span>`}</th>`)}</tr></thead>
      <tbody>
        ${keys.map(
          (key) => html`<tr>
            <td>${plain(key.name || key.judge || key.id)}</td>
            <td>${key.scopes.join(", ")}</td>
            <td>${key.created}</td>
            <td><button onClick=${() => revoke(key.id)}>${texts.people.revoke(key.name || key.id)}</button></td>
          </tr>`,
        )}
      </tbody>
    </table>
  `;
}
