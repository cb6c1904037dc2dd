/* What is shown stands in the part of the address behind #: view, range and what is chosen. So a link is all that
   another person needs to see the same, and no server or proxy writes it into its logs. */

export const PRESETS = [
  ["1m", 60], ["5m", 300], ["15m", 900], ["1h", 3600], ["6h", 21600], ["1d", 86400],
  ["7d", 604800], ["30d", 2592000], ["1y", 31622400],
];
export const CHOICES = ["mount", "target", "node", "job", "user"];
export const SHORTEST_S = 10;
export const LONGEST_S = 31622400;
const DEFAULT = { view: "overview", range: "1h", from: null, to: null, at: null, chosen: {} };

/* Where an address names no range: as far as anything is known, from five minutes to an hour. */
export function suit(known) {
  DEFAULT.range = PRESETS.find(([name, length]) => length >= 300 && (length >= known || name === "1h"))[0];
}

export function read() {
  const [view, query] = location.hash.replace(/^#\/?/, "").split("?");
  const values = new URLSearchParams(query || "");
  const state = { ...DEFAULT, view: view || DEFAULT.view, chosen: {} };
  const from = Number(values.get("from"));
  const to = Number(values.get("to"));
  if (values.has("from") && values.has("to") && to - from >= 1 && from >= 0 && to < 4102444800) {
    Object.assign(state, { range: null, from, to });
  } else if (PRESETS.some(([name]) => name === values.get("range"))) {
    state.range = values.get("range");
  }
  const at = Number(values.get("at"));
  if (values.has("at") && at > 0 && at < 4102444800) {
    state.at = at;
  }
  for (const name of CHOICES) {
    if (values.get(name)) {
      state.chosen[name] = values.get(name).slice(0, 512);
    }
  }
  return state;
}

export function address(state) {
  const values = new URLSearchParams();
  if (state.range === null) {
    values.set("from", String(Math.round(state.from)));
    values.set("to", String(Math.round(state.to)));
  } else {
    values.set("range", state.range);
  }
  if (state.at !== null) {
    values.set("at", String(Math.round(state.at)));
  }
  for (const name of CHOICES) {
    if (state.chosen[name]) {
      values.set(name, state.chosen[name]);
    }
  }
  return `#/${state.view}?${values}`;
}

/* The same with other parts; `chosen` is merged, and null takes a choice away. */
export function changed(state, change) {
  const chosen = { ...state.chosen, ...(change.chosen || {}) };
  for (const name of CHOICES) {
    if (chosen[name] === null) {
      delete chosen[name];
    }
  }
  return { ...state, ...change, chosen };
}

/* The range in seconds since 1970; one that ends now moves with the time. */
export function seconds(state, now) {
  if (state.range === null) {
    return { from: state.from, to: state.to, live: false };
  }
  const length = PRESETS.find(([name]) => name === state.range)[1];
  return { from: now - length, to: now, live: true };
}

/* A range of one's own, moved and stretched; one that would end after now ends now. */
export function moved(state, now, { by = 0, times = 1 }) {
  const { from, to } = seconds(state, now);
  const length = Math.min(LONGEST_S, Math.max(SHORTEST_S, (to - from) * times));
  const middle = (from + to) / 2 + by * (to - from);
  let [first, last] = [middle - length / 2, middle + length / 2];
  if (last > now) {
    [first, last] = [now - length, now];
  }
  return changed(state, { range: null, from: Math.floor(first), to: Math.ceil(last) });
}
