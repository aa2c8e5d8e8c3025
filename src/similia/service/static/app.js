// The shell: who is here, which page, and one line that says what happened.

import { html, render, useEffect, useState } from "./vendor/htm-preact.js";
import { get, session } from "./api.js";
import { Judge } from "./judge.js";
import { Lists } from "./lists.js";
import { Model } from "./model.js";
import { flush, watch } from "./outbox.js";
import { People } from "./people.js";
import { Search } from "./search.js";
import { texts } from "./texts.js";

// Pages, and the scope that a key needs for them.
const PAGES = {
  judge: [Judge, "feedback"],
  lists: [Lists, "read"],
  search: [Search, "read"],
  model: [Model, "read"],
  people: [People, "admin"],
};

const LATE = 2000; // milliseconds after which people are told that answers wait

const page = () => location.hash.replace(/^#\//, "") || "judge";

function App() {
  const [where, setWhere] = useState(page());
  const [me, setMe] = useState(null);
  const [refused, setRefused] = useState(false);
  const [said, announce] = useState("");
  const [waiting, setWaiting] = useState(0);
  const [late, setLate] = useState(false);

  async function meet() {
    try {
      setMe(await get("judging/me"));
      setRefused(false);
      void flush();
    } catch (error) {
      if (error.status === 401 || error.status === 403) setRefused(true);
      else {
        announce(texts.failed(error.message));
        setTimeout(meet, 2000);
      }
    }
  }

  useEffect(() => {
    void meet();
    const turn = () => {
      setWhere(page());
      announce("");
    };
    addEventListener("hashchange", turn);
    const stop = watch((news) => setWaiting(news.waiting));
    return () => {
      removeEventListener("hashchange", turn);
      stop();
    };
  }, []);

  const behind = waiting > 0;
  useEffect(() => {
    if (!behind) return setLate(false);
    const timer = setTimeout(() => setLate(true), LATE);
    return () => clearTimeout(timer);
  }, [behind]);

  const allowed = Object.entries(PAGES).filter(([, [, scope]]) => me?.scopes.includes(scope));
  const name = allowed.some(([known]) => known === where) ? where : allowed[0]?.[0];
  const Page = name && PAGES[name][0];
  return html`
    <a class="skip" href="#content" onClick=${toContent}>${texts.skip}</a>
    <header>
      <span class="brand">${texts.name}</span>
      <nav aria-label=${texts.name}>
        ${allowed.map(([known]) => html`<a href=${`#/${known}`} aria-current=${known === name ? "page" : null}>${texts.pages[known]}</a>`)}
      </nav>
      ${me?.tenants.length > 1 && html`<${Projects} tenants=${me.tenants} />`}
      ${session.key && html`<button class="plain" onClick=${forget}>${texts.key.forget}</button>`}
    </header>
    <main id="content" tabindex="-1">
      <p role="status" class="said">${late ? texts.offline(waiting) : said}</p>
      ${refused && html`<${Key} use=${meet} />`}
      ${!refused && Page && html`<${Page} announce=${announce} owner=${me.scopes.includes("admin")} keyed=${me.keyed} />`}
    </main>
  `;
}

function toContent(event) {
  event.preventDefault();
  document.getElementById("content").focus();
}

function forget() {
  session.remember("key", null);
  location.reload();
}

function Projects({ tenants }) {
  const choose = (event) => {
    session.remember("tenant", event.target.value);
    location.reload();
  };
  return html`
    <label>${texts.project}
      <select value=${session.tenant} onChange=${choose}>${tenants.map((tenant) => html`<option>${tenant}</option>`)}</select>
    </label>
  `;
}

function Key({ use }) {
  const [key, setKey] = useState("");
  const submit = (event) => {
    event.preventDefault();
    session.remember("key", key.trim());
    use();
  };
  return html`
    <form onSubmit=${submit}>
      <h1>${texts.key.title}</h1>
      <p>${texts.key.ask}</p>
      <label>${texts.key.label} <input type="password" autocomplete="off" value=${key} onInput=${(event) => setKey(event.target.value)} /></label>
      <button class="main">${texts.key.use}</button>
    </form>
  `;
}

const root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);
