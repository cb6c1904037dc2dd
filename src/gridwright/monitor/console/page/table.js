/* Tables that can be sorted: real ones, with buttons in their heads, for keyboards and screen readers. */

import { element, replace } from "./element.js";

const orders = new Map();
const filters = new Map();
const FILTERED_FROM = 12;

/* A table that can be given other rows. Columns: {title, words}; rows: {key, cells: [{text, value, style}]}.
   `link(row)` is an address for the row's name, `isChosen(row)` whether it is marked. */
export class SortedTable {
  constructor({ title, columns, link = null, isChosen = null, empty = "Nothing to show.", level = "h2", first = null }) {
    this.title = title;
    this.columns = columns;
    this.link = link;
    this.isChosen = isChosen;
    this.first = first;
    this.rows = [];
    this.body = element("tbody");
    this.note = element("p", { class: "note" });
    this.none = element("p", { class: "empty" }, empty);
    this.heads = columns.map((column, index) => this.head(column, index));
    const table = element("table", {}, element("thead", {}, element("tr", {}, this.heads)), this.body);
    this.box = element("div", { class: "table-box", role: "region", tabindex: "0", "aria-label": title }, table);
    this.search = element("input", {
      type: "search", placeholder: "Filter", "aria-label": `Filter ${title}`, value: filters.get(title) || "",
      oninput: () => { filters.set(this.title, this.search.value); this.draw(); },
    });
    this.element = element("div", { class: "table-part" },
      element("div", { class: "table-head" }, element(level, {}, title), this.search), this.none, this.box, this.note);
    this.set([]);
  }

  head(column, index) {
    const button = element("button", { type: "button", onclick: () => this.sort(index) }, column.title);
    return element("th", { scope: "col", class: column.words ? "words" : null }, button);
  }

  sort(index) {
    const before = this.order();
    const falling = before.index === index ? !before.falling : !this.columns[index].words;
    orders.set(this.title, { index, falling });
    this.draw();
  }

  order() {
    const wanted = this.first ? this.columns.findIndex((column) => column.title === this.first.title) : -1;
    const first = wanted >= 0 ? { index: wanted, falling: this.first.falling } : { index: 0, falling: !this.columns[0].words };
    return orders.get(this.title) || first;
  }

  set(rows, leftOut = 0) {
    this.rows = rows;
    this.leftOut = leftOut;
    this.draw();
  }

  draw() {
    const { index, falling } = this.order();
    this.heads.forEach((head, number) => {
      head.setAttribute("aria-sort", number === index ? (falling ? "descending" : "ascending") : "none");
    });
    const wanted = this.search.value.trim().toLowerCase();
    const shown = this.rows.filter((row) => !wanted || row.cells.some((cell) => cell.text.toLowerCase().includes(wanted)));
    shown.sort((a, b) => compare(a.cells[index], b.cells[index], falling));
    const focused = this.body.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    replace(this.body, shown.map((row) => this.row(row)));
    if (focused !== null && focused !== undefined) {
      [...this.body.querySelectorAll("a")].find((each) => each.dataset.key === focused)?.focus();
    }
    this.none.hidden = this.rows.length > 0;
    this.box.hidden = this.rows.length === 0;
    this.search.hidden = this.rows.length < FILTERED_FROM && !wanted;
    const left = this.leftOut ? `${this.leftOut} more rows are not shown. ` : "";
    this.note.textContent = left + (wanted ? `${shown.length} of ${this.rows.length} rows.` : "");
    this.note.hidden = this.note.textContent === "";
  }

  row(row) {
    const address = this.link ? this.link(row) : null;
    const cells = row.cells.map((cell, index) => {
      const column = this.columns[index];
      const style = { red: "bad", green: "good", yellow: "doubt" }[cell.style] || cell.style || "";
      const names = [column.words ? "words" : "", style].filter(Boolean).join(" ") || null;
      const content = cell.node || cell.text;
      if (index > 0) {
        return element("td", { class: names }, content);
      }
      return element("th", { scope: "row", class: names },
        address ? element("a", { href: address, "data-key": row.key }, content) : content);
    });
    const chosen = this.isChosen && this.isChosen(row);
    return element("tr", { class: chosen ? "chosen-row" : null, "aria-current": chosen ? "true" : null }, cells);
  }
}

/* What has no figure stands last, whichever way is sorted. */
function compare(a, b, falling) {
  const [one, other] = [a.value ?? null, b.value ?? null];
  if (one === null && other === null) {
    const words = a.text.localeCompare(b.text, "en", { numeric: true });
    return falling ? -words : words;
  }
  if (one === null || other === null) {
    return one === null ? 1 : -1;
  }
  return falling ? other - one : one - other;
}

/* The columns of a table of the server, which are those of `gridwright top`. */
export function columnsOf(table) {
  return [
    ...table.words.map((title) => ({ title, words: true })),
    ...table.figures.map((title) => ({ title, words: false })),
    ...(table.last ? [{ title: table.last, words: true }] : []),
  ];
}
