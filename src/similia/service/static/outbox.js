// Answers on their way: kept in the browser until the server has them on its disk.
//
// Each has an entry of its own in the browser's storage, so tabs do not overwrite each other, and an
// id of its own, so sending it twice stores it once. They are sent in order. An answer that the
// server refuses is set aside and told of, so that it does not hold up the rest.

import { post, Refused, session } from "./api.js";

const PLACE = "similia.out.";
const RETRY = [500, 1000, 2000, 5000, 10000]; // milliseconds
const PASSING = [401, 403, 408, 429];

const listeners = new Set();
let sending = false;
let failures = 0;
let count = 0;

const waiting = () =>
  Object.keys(localStorage)
    .filter((name) => name.startsWith(PLACE))
    .sort();

function tell(news) {
  for (const listener of listeners) listener({ waiting: waiting().length, ...news });
}

export const newId = () => crypto.randomUUID();

export function watch(listener) {
  listeners.add(listener);
  tell({});
  return () => listeners.delete(listener);
}

// `path` and `body` of a POST that may be repeated without harm.
export function send(path, body) {
  const place = `${Date.now()}.${String(count++).padStart(6, "0")}.${newId()}`;
  const entry = { tenant: session.tenant, path, body };
  localStorage.setItem(PLACE + place, JSON.stringify(entry));
  tell({});
  void flush();
}

export async function flush() {
  if (sending) return;
  sending = true;
  try {
    for (let [name] = waiting(); name; [name] = waiting()) {
      const entry = JSON.parse(localStorage.getItem(name));
      let news;
      try {
        const place = `/v1/${encodeURIComponent(entry.tenant)}/${entry.path}`;
        news = { stored: entry, receipt: await post(place, entry.body) };
      } catch (error) {
        const refused = error instanceof Refused && error.status < 500;
        if (!refused || PASSING.includes(error.status)) {
          setTimeout(flush, RETRY[Math.min(failures++, RETRY.length - 1)]);
          return;
        }
        news = { refused: entry, reason: error.message };
      }
      failures = 0;
      localStorage.removeItem(name);
      tell(news);
    }
  } finally {
    sending = false;
  }
}

addEventListener("online", flush);
void flush();
