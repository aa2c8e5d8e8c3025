// Two items, one key: which is better? The next question is there before it is needed.

import { html, useEffect, useReducer, useRef, useState } from "./vendor/htm-preact.js";
import { get } from "./api.js";
import { Card, QueryHead } from "./card.js";
import { newId, send, watch } from "./outbox.js";
import { texts } from "./texts.js";

const AHEAD = 12; // questions fetched at a time
const LOW = 5; // fetch more when fewer are left

const KEYS = {
  1: "left",
  ArrowLeft: "left",
  2: "right",
  ArrowRight: "right",
  0: "alike",
  n: "none",
  " ": "skip",
  u: "undo",
};

export function Judge({ announce, owner }) {
  const queue = useRef([]);
  const fetching = useRef(false);
  const given = useRef([]); // answers and their questions, newest last, for undo
  const shownAt = useRef(0);
  const [standing, setStanding] = useState(null);
  const [state, setState] = useState("loading");
  const [gold, setGold] = useState(false); // an owner's answers, to check others by
  const [, redraw] = useReducer((n) => n + 1, 0);

  async function fill() {
    if (fetching.current) return;
    fetching.current = true;
    try {
      const found = await get(`judging/questions?n=${AHEAD}`);
      const held = new Set(queue.current.map((question) => question.id));
      queue.current.push(...found.questions.filter((question) => !held.has(question.id)));
      setStanding((before) => ({ ...found.judge, answers: Math.max(found.judge.answers, before?.answers ?? 0) }));
      setState(queue.current.length ? "ready" : "done");
      redraw();
    } catch (error) {
      if (!queue.current.length) setState("waiting");
      announce(texts.failed(error.message));
      setTimeout(fill, 2000);
    } finally {
      fetching.current = false;
    }
  }

  function count(choice, more) {
    if (choice !== "skip") setStanding((before) => ({ ...before, answers: (before?.answers ?? 0) + more }));
  }

  // `since`: when the key went down, on the browser's own clock.
  function answer(choice, since = performance.now()) {
    if (choice === "undo") {
      const last = given.current.pop();
      if (!last) return announce(texts.judge.nothing);
      send(`feedback/${encodeURIComponent(last.id)}/retract`, {});
      queue.current.unshift(last.question);
      count(last.choice, -1);
      setState("ready");
      return announce(texts.judge.undone);
    }
    const question = queue.current[0];
    if (!question) return undefined;
    const id = newId();
    send("judging/answers", {
      id,
      question: question.id,
      query: question.query,
      left: question.left.id,
      right: question.right.id,
      source: gold ? "gold" : question.source,
      answer: choice,
      milliseconds: Math.round(performance.now() - shownAt.current),
    });
    given.current.push({ id, question, choice });
    performance.mark("answered", { startTime: since });
    queue.current.shift();
    count(choice, 1);
    if (!queue.current.length) setState("loading");
    redraw();
    announce(texts.judge.said(texts.judge.answers[choice]));
    if (queue.current.length < LOW) void fill();
    return undefined;
  }

  const latest = useRef(answer);
  latest.current = answer;

  useEffect(() => {
    void fill();
    const onKey = (event) => {
      const choice = KEYS[event.key];
      const typing = event.target.matches?.("input, select, textarea, a, summary");
      const pressing = event.key === " " && event.target.matches?.("button");
      if (!choice || typing || pressing || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
      event.preventDefault();
      latest.current(choice, event.timeStamp);
    };
    addEventListener("keydown", onKey);
    const stop = watch((news) => {
      if (news.refused) announce(texts.refused(news.reason));
    });
    return () => {
      removeEventListener("keydown", onKey);
      stop();
    };
  }, []);

  const question = queue.current[0];
  useEffect(() => {
    shownAt.current = performance.now();
    if (performance.getEntriesByName("answered").length) {
      performance.measure("answer to next question", "answered");
      performance.clearMarks("answered");
    }
  }, [question?.id]);

  return html`
    <section class="judge">
      <h1>${question?.like ? texts.judge.like : texts.judge.title}</h1>
      ${question
        ? html`<${Question} key=${question.id} question=${question} answer=${answer} />`
        : html`<p class="quiet">${state === "done" ? texts.judge.done : texts.loading}</p>`}
      ${standing && html`<${Standing} standing=${standing} />`}
      ${owner &&
      html`<label class="quiet">
        <input type="checkbox" checked=${gold} onChange=${() => setGold(!gold)} /> ${texts.judge.asGold}
      </label>`}
    </section>
  `;
}

function Question({ question, answer }) {
  const words = question.query.text ?? question.like?.text;
  return html`
    <${QueryHead} query=${question.query} like=${question.like} />
    <div class="pair">
      ${["left", "right"].map(
        (side) => html`
          <article aria-label=${texts.judge[side]} data-item=${question[side].id}>
            <${Card} item=${question[side]} query=${words} />
            <button class="answer" onClick=${() => answer(side)}>
              ${texts.judge.answers[side]} <kbd>${texts.judge.keys[side]}</kbd>
            </button>
          </article>
        `,
      )}
    </div>
    <div class="others">
      ${["alike", "none", "skip", "undo"].map(
        (choice) => html`
          <button onClick=${() => answer(choice)}>
            ${texts.judge.answers[choice]} <kbd>${texts.judge.keys[choice]}</kbd>
          </button>
        `,
      )}
    </div>
  `;
}

function Standing({ standing }) {
  const { answers, repeats, gold } = standing;
  const said = [texts.judge.answered(answers)];
  if (repeats?.asked) said.push(texts.judge.consistency(repeats.right, repeats.asked));
  if (gold?.asked) said.push(texts.judge.gold(gold.right, gold.asked));
  return html`<p class="quiet standing">${said.join(" · ")}</p>`;
}
