/* Begins the page: what is shown follows the address, and is asked for again while the range ends now. */

import { address, changed, moved, PRESETS, read, seconds, suit } from "./address.js";
import { ask, Refused } from "./ask.js";
import { element, replace } from "./element.js";
import { forInput, fromInput, moment, span } from "./format.js";
import { beginKeys } from "./keys.js";
import { beginTheme } from "./theme.js";
import { jobs } from "./views/jobs.js";
import { nodes } from "./views/nodes.js";
import { overview } from "./views/overview.js";
import { repositories } from "./views/repositories.js";
import { runs } from "./views/runs.js";
import { space } from "./views/space.js";
import { storage } from "./views/storage.js";

const VIEWS = [
  ["overview", "Overview", overview], ["storage", "File systems", storage], ["nodes", "Nodes", nodes],
  ["jobs", "Jobs", jobs], ["space", "Space", space], ["runs", "Runs", runs], ["repositories", "Repositories", repositories],
];
const SLOWEST_MS = 60000;
const STALE_S = 30;

const page = {
  state: read(), about: null, shown: null, view: null, paused: false, offset: 0, asking: null, timer: null, marks: [], lost: null,
};
const part = (id) => document.getElementById(id);

/* The time by the server's clock: a browser's may be set otherwise. */
function now() {
  return Date.now() / 1000 + page.offset;
}

const context = {
  now,
  about: () => page.about,
  state: () => page.state,
  range: () => seconds(page.state, page.asked ?? now()),
  at: () => page.state.at,
  marks: () => page.marks,
  go: (change) => go(changed(page.state, change)),
  link: (change) => address(changed(page.state, change)),
  zoom: (from, to) => go(changed(page.state, { range: null, from: Math.floor(from), to: Math.max(Math.floor(from) + 10, Math.ceil(to)) })),
  pick: (at) => go(changed(page.state, { at: Math.round(at) })),
  ask: (name, values) => ask(name, values, page.asking.signal),
  /* What asks for the range that is shown. */
  asked: (points) => {
    const { from, to } = context.range();
    return { from: from.toFixed(0), to: Math.max(to, from + 1).toFixed(0), points };
  },
  /* The moment that tables show: the one that was picked, else the end of the range. */
  pictureAt: () => {
    const { from, to, live } = context.range();
    if (page.state.at !== null) {
      return { at: page.state.at, seconds: Math.max(2, Math.min(3600, Math.round((to - from) / 60))) };
    }
    return live ? { seconds: 10 } : { at: to.toFixed(0), seconds: Math.max(2, Math.min(3600, Math.round((to - from) / 60))) };
  },
};

function go(state) {
  location.hash = address(state);
}

async function begin() {
  beginTheme(() => page.view?.redraw?.());
  beginKeys({ go: (change) => context.go(change), move: (how) => go(moved(page.state, now(), how)), views: VIEWS.map(([name]) => name), pause });
  window.addEventListener("hashchange", () => { page.state = read(); show(); });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) { update(); } });
  buildControls();
  show();
}

async function learn() {
  try {
    const first = page.about === null;
    page.about = await ask("about");
    if (first) {
      suit(page.about.reach === null ? 0 : page.about.now - page.about.reach[0]);
      page.state = read();
    }
    page.offset = page.about.now - Date.now() / 1000;
    part("name").textContent = page.about.name;
    document.title = `${page.about.name} · Gridwright console`;
    part("foot").textContent = `Gridwright ${page.about.version} · times are UTC · 1 MB is 1 000 000 bytes · press ? for keys`;
    page.lost = null;
  } catch (error) {
    page.lost = error;
  }
}

function buildControls() {
  replace(part("presets"), PRESETS.map(([name]) => element("button", { type: "button", "data-range": name, onclick: () => context.go({ range: name, from: null, to: null, at: null }) }, name)));
  part("back").addEventListener("click", () => go(moved(page.state, now(), { by: -0.5 })));
  part("on").addEventListener("click", () => go(moved(page.state, now(), { by: 0.5 })));
  part("out").addEventListener("click", () => go(moved(page.state, now(), { times: 2 })));
  part("in").addEventListener("click", () => go(moved(page.state, now(), { times: 0.5 })));
  part("pause").addEventListener("click", pause);
  // The part of an address behind # is the page's state, so a link to #main would lose it.
  part("skip").addEventListener("click", (event) => { event.preventDefault(); part("main").focus(); });
  part("range").addEventListener("submit", (event) => {
    event.preventDefault();
    const [from, to] = [fromInput(part("from").value), fromInput(part("to").value)];
    if (from !== null && to !== null && to > from) {
      context.go({ range: null, from, to });
    }
  });
}

function pause() {
  page.paused = !page.paused;
  part("pause").setAttribute("aria-pressed", String(page.paused));
  tellState();
  if (!page.paused) {
    update();
  }
}

/* Builds the view that the address names. */
function show() {
  const known = VIEWS.find(([name]) => name === page.state.view) || VIEWS[0];
  page.state.view = known[0];
  replace(part("views"), VIEWS.map(([name, title]) => element("li", {}, element("a", {
    href: address(changed(page.state, { view: name })), "aria-current": name === known[0] ? "page" : null,
  }, title))));
  showRange();
  showChosen();
  page.view?.close?.();
  page.marks = [];
  // Before the first answer nothing is known that a view could be made of.
  page.view = page.about === null ? null : known[2](part("main"), context);
  page.hash = location.hash;
  delete part("main").dataset.ready;
  update();
}

function showRange() {
  const { from, to, live } = context.range();
  for (const button of part("presets").children) {
    button.setAttribute("aria-current", String(live && button.dataset.range === page.state.range));
  }
  if (!part("range").contains(document.activeElement) || !live) {
    part("from").value = forInput(from);
    part("to").value = forInput(to);
  }
}

function showChosen() {
  const chips = Object.entries(page.state.chosen).map(([name, value]) => chip(`${name} ${value}`, { chosen: { [name]: null } }));
  if (page.state.at !== null) {
    chips.push(chip(`tables at ${moment(page.state.at)} UTC`, { at: null }));
  }
  part("chosen").hidden = chips.length === 0;
  replace(part("chosen"), chips.length ? "Shown:" : null, chips);
}

function chip(text, change) {
  return element("span", { class: "chip" }, text, element("button", { type: "button", "aria-label": `Without ${text}`, onclick: () => context.go(change) }, "×"));
}

/* Asks for what the view shows, and again after a while. */
async function update() {
  page.asking?.abort();
  clearTimeout(page.timer);
  const asking = page.asking = new AbortController();
  page.asked = now();
  document.body.classList.add("loading");
  try {
    if (page.view === null) {
      await learn();
      if (page.about !== null) {
        show();
        return;
      }
    } else {
      await askMarks();
      await page.view.update();
      page.lost = null;
      // Tells who waits for it which address the figures are of.
      part("main").dataset.ready = page.hash;
    }
  } catch (error) {
    if (asking.signal.aborted) {
      return;
    }
    page.lost = error;
  } finally {
    if (page.asking === asking) {
      document.body.classList.remove("loading");
      tellState();
      showRange();
      const { from, to, live } = context.range();
      const wait = Math.min(SLOWEST_MS, Math.max((page.about?.refresh ?? 2) * 1000, ((to - from) / 300) * 1000));
      if ((live && !page.paused) || page.lost !== null) {
        page.timer = setTimeout(() => { if (!document.hidden) { update(); } }, page.lost ? 5000 : wait);
      }
    }
  }
}

async function askMarks() {
  page.marks = (await context.ask("marks", context.asked(2))).marks;
}

function tellState() {
  const state = part("state");
  const age = page.view?.age?.() ?? null;
  const { from, to, live } = context.range();
  const stale = live && age !== null && age > STALE_S;
  state.className = page.lost ? "state lost" : stale ? "state stale" : "state";
  if (page.lost !== null) {
    state.textContent = words(page.lost);
  } else if (!live || page.state.at !== null) {
    state.textContent = page.state.at !== null ? `Tables show ${moment(page.state.at)} UTC` : `${moment(from)} to ${moment(to)} UTC, ${span(to - from)}`;
  } else if (stale) {
    state.textContent = `Stale: the last sample is ${span(age)} old`;
  } else {
    state.textContent = `${page.paused ? "Paused" : "Live"} · ${moment(page.asked)} UTC`;
  }
}

function words(error) {
  if (error instanceof Refused && error.status === 401) {
    return "This page is not let in any more: the console was started again. Open the address that it printed.";
  }
  if (error instanceof Refused) {
    return `The console refused: ${error.message}`;
  }
  return "The console does not answer. It is asked again; what is shown is old.";
}

begin();
