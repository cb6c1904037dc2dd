/* Single keys, for who knows them; they can be turned off. */

import { element, replace } from "./element.js";
import { switchTheme } from "./theme.js";

const KEY = "gridwright-keys";

export function beginKeys({ go, move, views, pause }) {
  const dialog = document.getElementById("keys");
  const on = document.getElementById("keys-on");
  try {
    on.checked = localStorage.getItem(KEY) !== "off";
  } catch (_) {
    on.checked = true;
  }
  on.addEventListener("change", () => {
    try {
      localStorage.setItem(KEY, on.checked ? "on" : "off");
    } catch (_) {
      // It holds until the page is left.
    }
  });
  const keys = [
    ["1 … 7", "the views in order", null],
    ["[", "back by half of the range", () => move({ by: -0.5 })],
    ["]", "on by half of the range", () => move({ by: 0.5 })],
    ["-", "twice as long", () => move({ times: 2 })],
    ["+", "half as long", () => move({ times: 0.5 })],
    ["n", "the last hour, live", () => go({ range: "1h", from: null, to: null, at: null })],
    ["p", "stop, and go on", pause],
    ["d", "dark or light", switchTheme],
    ["/", "filter of the first table", () => [...document.querySelectorAll("main input[type=search]")].find((each) => !each.hidden)?.focus()],
    ["t", "all charts as tables, or not", () => document.querySelectorAll("main .as-table").forEach((each) => each.click())],
    ["c", "without what is chosen", () => go({ at: null, chosen: { mount: null, target: null, node: null, job: null, user: null } })],
    ["?", "this list", () => dialog.showModal()],
    ["← → Enter", "in a chart: the cursor, and tables at its moment", null],
  ];
  replace(document.getElementById("keys-list"), keys.map(([key, does]) => element("tr", {}, element("th", { scope: "row" }, element("code", {}, key)), element("td", { class: "words" }, does))));
  document.getElementById("help").addEventListener("click", () => dialog.showModal());
  document.getElementById("keys-close").addEventListener("click", () => dialog.close());
  document.addEventListener("keydown", (event) => {
    const target = event.target;
    if (event.ctrlKey || event.altKey || event.metaKey || dialog.open || target.closest?.("input, select, textarea")) {
      return;
    }
    if (!on.checked) {
      return;
    }
    const view = views[Number(event.key) - 1];
    const found = keys.find(([key, , act]) => key === event.key && act !== null);
    if (view !== undefined) {
      go({ view });
    } else if (found) {
      found[2]();
    } else {
      return;
    }
    event.preventDefault();
  });
}
