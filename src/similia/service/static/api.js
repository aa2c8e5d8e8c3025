// Requests to the service: one project, one key, errors as sentences.

import { texts } from "./texts.js";

const stored = (name) => localStorage.getItem(`similia.${name}`);

export const session = {
  tenant: stored("tenant") ?? "default",
  key: stored("key"),
  remember(name, value) {
    this[name] = value;
    if (value) localStorage.setItem(`similia.${name}`, value);
    else localStorage.removeItem(`similia.${name}`);
  },
};

// An invitation is a link to /#key=…&tenant=…: taken out of the address at once, and kept here. Whoever
// has another key already is asked first, as a link from elsewhere must not change who they are.
const invited = new URLSearchParams(location.hash.slice(1));
if (invited.has("key")) {
  const key = invited.get("key");
  const tenant = invited.get("tenant") ?? "default";
  history.replaceState(null, "", "/#/judge");
  if (!session.key || session.key === key || confirm(texts.key.replace(tenant))) {
    session.remember("key", key);
    session.remember("tenant", tenant);
  }
}

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export async function call(method, path, body) {
  const headers = {};
  if (session.key) headers.authorization = `Bearer ${session.key}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  const place = path.startsWith("/") ? path : `/v1/${encodeURIComponent(session.tenant)}/${path}`;
  const response = await fetch(place, {
    method,
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
    cache: "no-store",
  });
  const found = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(response.status, found.error ?? response.statusText);
  return found;
}

export const get = (path) => call("GET", path);
export const post = (path, body = {}) => call("POST", path, body);

// Contents of items, fetched once each.
const known = new Map();

export async function contents(ids) {
  const missing = ids.filter((id) => !known.has(id));
  if (missing.length) {
    const { items } = await post("judging/items", { ids: missing });
    for (const item of items) known.set(item.id, item);
  }
  return ids.map((id) => known.get(id) ?? { id, unknown: true });
}
