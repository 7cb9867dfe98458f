// Everything works without this file. It searches as you type, and says when something has changed.
"use strict";

const form = document.querySelector("#search");
let typed = 0;

async function search() {
  const asked = ++typed;
  const query = new URLSearchParams(new FormData(form));
  for (const [name, value] of [...query]) if (!value) query.delete(name);
  const own = `/?${query}`;
  query.set("part", "1");
  const answer = await fetch(`/?${query}`);
  if (!answer.ok || asked !== typed) return; // a later letter was faster
  const found = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("#results");
  if (found) document.querySelector("#results").replaceChildren(...found.childNodes);
  history.replaceState(null, "", own);
}

if (form) {
  let timer = 0;
  form.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => search().catch(() => {}), 250);
  });
}

const state = document.querySelector("#state");
async function look() {
  if (document.hidden) return;
  const answer = await fetch(state.dataset.at);
  if (!answer.ok) return;
  const now = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("#state");
  if (!now || now.dataset.mark === state.dataset.mark) return;
  state.textContent = now.textContent;
  state.dataset.mark = now.dataset.mark;
  document.querySelector("#news").hidden = false;
}
if (state) {
  setInterval(() => look().catch(() => {}), 5000);
  addEventListener("focus", () => look().catch(() => {}));
}

// A view of what happens by itself is shown anew where that has changed, unless somebody is at work in it.
const live = document.querySelector("#live");
const timeless = (one) => one.innerHTML.replace(/<time.*?<\/time>/g, "");
async function follow() {
  if (document.hidden || live.contains(document.activeElement)) return;
  const answer = await fetch(location.href);
  if (!answer.ok) return;
  const now = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("#live");
  if (now && timeless(now) !== timeless(live)) live.replaceChildren(...now.childNodes);
}
if (live) {
  setInterval(() => follow().catch(() => {}), 5000);
  addEventListener("focus", () => follow().catch(() => {}));
}

document.addEventListener("keydown", (event) => {
  const field = document.querySelector("#q");
  if (event.key !== "/" || !field || event.target.closest("input, textarea, select")) return;
  event.preventDefault();
  field.focus();
});
