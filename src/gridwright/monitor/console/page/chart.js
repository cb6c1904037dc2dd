/* Courses over time: a picture for eyes, and the same figures as a table and as CSV for everybody. */

import uPlot from "./uplot/uPlot.esm.js";
import { element, replace } from "./element.js";
import { moment, number, percent, span, tell, UNITS } from "./format.js";

const COLOURS = ["--s1", "--s2", "--s3", "--s4", "--s5", "--s6", "--s7", "--s8"];
const DASHES = [[], [8, 4], [2, 3]];
const GROUP = "gridwright";
const MOST_TOLD = 5;

function coloured(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/* `context` tells the range and takes zooms and clicks: {zoom(from, to), pick(at), marks(), range(), at()}. */
export class Chart {
  constructor({ title, unit, context, tall = false, note = "", csv = null, more = "" }) {
    Object.assign(this, { title, unit, context, csv, noteText: note, more });
    this.data = null;
    this.plot = null;
    this.tabled = false;
    this.toggle = element("button", { type: "button", "aria-pressed": "false", class: "as-table", onclick: () => this.switchTable() }, "Table");
    this.download = element("a", { class: "button", download: "" }, "CSV");
    this.caption = element("figcaption", {}, element("strong", {}, title), this.toggle, this.download);
    this.box = element("div", {
      class: tall ? "plot tall" : "plot", tabindex: "0", role: "group",
      "aria-label": `${title}: chart. Arrow keys move the cursor, Enter shows that moment; the button Table shows the figures.`,
      onkeydown: (event) => this.key(event),
    });
    this.readout = element("p", { class: "readout", "aria-live": "off" });
    this.legend = element("ul", { class: "legend" });
    this.table = element("div", { class: "table-box", role: "region", tabindex: "0", "aria-label": `${title}: figures`, hidden: true });
    this.gaps = element("p", { class: "gaps", hidden: true });
    this.note = element("p", { class: "note", hidden: !note }, note);
    this.element = element("figure", { class: "chart" },
      this.caption, this.box, this.readout, this.legend, this.table, this.gaps, this.note);
    this.resizing = new ResizeObserver(() => this.resize());
    this.resizing.observe(this.box);
  }

  /* data: {start, step, count, lines: [{name, values, required}], away: [{node, from, to, why}]} */
  set(data) {
    this.data = data;
    this.element.classList.toggle("nothing", data.lines.length === 0);
    const times = Array.from({ length: data.count }, (_, index) => data.start + (index + 0.5) * data.step);
    this.times = times;
    this.values = [times, ...data.lines.map((line) => line.values.map((each) => (each === null ? null : each / UNITS[this.unit].scale)))];
    const shape = `${data.lines.map((line) => line.name).join("\n")}|${document.documentElement.dataset.theme}`;
    if (this.plot === null || this.shape !== shape) {
      this.shape = shape;
      this.build();
    } else {
      this.plot.setData(this.values, false);
      this.plot.setScale("x", this.scaleX());
    }
    this.drawLegend();
    this.drawGaps();
    if (this.tabled) {
      this.drawTable();
    }
    const address = this.csv ? this.csv() : null;
    this.download.hidden = address === null;
    if (address !== null) {
      this.download.setAttribute("href", address);
    }
    this.element.dataset.drawn = "yes";
  }

  scaleX() {
    const { from, to } = this.context.range();
    return { min: from, max: to };
  }

  close() {
    this.resizing.disconnect();
    if (this.plot !== null) {
      this.plot.destroy();
      this.plot = null;
    }
  }

  build() {
    if (this.plot !== null) {
      this.plot.destroy();
    }
    const [ink, line] = [coloured("--muted"), coloured("--line")];
    const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: "12px sans-serif" };
    const options = {
      width: Math.max(200, this.box.clientWidth),
      height: this.box.clientHeight || 230,
      legend: { show: false },
      tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
      scales: { x: { time: true, range: () => { const { min, max } = this.scaleX(); return [min, max]; } }, y: { range: (_, low, high) => [Math.min(0, low ?? 0), high > 0 ? high * 1.06 : 1] } },
      cursor: { drag: { x: true, y: false, setScale: false }, sync: { key: GROUP, setSeries: false }, points: { size: 6 } },
      axes: [{ ...axis, space: 84, values: (_, all, __, ___, step) => timeTexts(all, step) }, { ...axis, size: 58, label: UNITS[this.unit].name, labelSize: 18, labelFont: "12px sans-serif", values: (_, all) => all.map((each) => axisText(each)) }],
      series: [{}, ...this.data.lines.map((each, index) => ({
        label: each.name,
        stroke: each.required ? coloured("--required") : coloured(COLOURS[index % COLOURS.length]),
        width: each.required ? 1.5 : 1.75,
        dash: each.required ? [6, 4] : DASHES[Math.floor(index / COLOURS.length) % DASHES.length],
        spanGaps: false,
        points: { show: this.data.count < 3 },
      }))],
      hooks: {
        setSelect: [(plot) => this.selected(plot)],
        setCursor: [(plot) => this.tellCursor(plot)],
        drawClear: [(plot) => this.drawAway(plot)],
        draw: [(plot) => this.drawMarks(plot)],
      },
    };
    replace(this.box);
    this.plot = new uPlot(options, this.values, this.box);
    this.plot.over.addEventListener("click", (event) => {
      if (!this.zoomed && event.detail === 1 && this.plot.cursor.idx !== null) {
        this.context.pick(this.times[this.plot.cursor.idx]);
      }
      this.zoomed = false;
    });
  }

  resize() {
    if (this.plot !== null && this.box.clientWidth > 0 && Math.abs(this.plot.width - this.box.clientWidth) > 1) {
      this.plot.setSize({ width: this.box.clientWidth, height: this.box.clientHeight });
    }
  }

  selected(plot) {
    this.zoomed = plot.select.width > 4;
    if (this.zoomed) {
      const from = plot.posToVal(plot.select.left, "x");
      const to = plot.posToVal(plot.select.left + plot.select.width, "x");
      plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
      this.context.zoom(from, to);
    }
  }

  key(event) {
    if (this.plot === null || event.target !== this.box || event.ctrlKey || event.altKey || event.metaKey) {
      return;
    }
    const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    const last = this.data.count - 1;
    const at = this.cursorIndex ?? last;
    if (event.key === "Enter") {
      this.context.pick(this.times[Math.min(last, at)]);
    } else if (steps !== undefined) {
      this.cursorIndex = Math.max(0, Math.min(last, at + steps));
      this.readout.setAttribute("aria-live", "polite");
      this.plot.setCursor({ left: this.plot.valToPos(this.times[this.cursorIndex], "x"), top: 10 });
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  tellCursor(plot) {
    const index = plot.cursor.idx;
    if (index === null || index === undefined || plot.cursor.left < 0) {
      this.readout.textContent = "";
      return;
    }
    this.cursorIndex = index;
    const told = this.data.lines.slice(0, MOST_TOLD).map((line) => `${line.name} ${tell(line.values[index], this.unit)}`);
    const at = this.times[index];
    const marks = this.context.marks().filter((each) => at >= each.from - this.data.step && at <= (each.to ?? at) + this.data.step);
    this.readout.textContent = [`${moment(at)} UTC`, ...told, ...marks.map((each) => each.text)].join(" · ");
  }

  /* Times in which a node that is drawn here told nothing. */
  drawAway(plot) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.fillStyle = coloured("--gap");
    for (const each of this.data.away || []) {
      const left = Math.max(bbox.left, plot.valToPos(each.from, "x", true));
      const right = Math.min(bbox.left + bbox.width, plot.valToPos(each.to, "x", true));
      if (right > left) {
        ctx.fillRect(left, bbox.top, right - left, bbox.height);
      }
    }
    ctx.restore();
  }

  drawMarks(plot) {
    const { ctx, bbox } = plot;
    const ratio = window.devicePixelRatio || 1;
    ctx.save();
    for (const each of this.context.marks()) {
      const left = plot.valToPos(each.from, "x", true);
      const right = plot.valToPos(each.to ?? this.context.range().to, "x", true);
      if (right < bbox.left || left > bbox.left + bbox.width) {
        continue;
      }
      ctx.fillStyle = coloured({ good: "--met-edge", bad: "--missed-edge", doubt: "--doubt-edge" }[each.state] || "--other-edge");
      const from = Math.max(bbox.left, left);
      const to = Math.min(bbox.left + bbox.width, Math.max(right, left + 3 * ratio));
      ctx.fillRect(from, bbox.top, Math.max(2 * ratio, to - from), 5 * ratio);
      ctx.globalAlpha = 0.45;
      ctx.fillRect(from, bbox.top, ratio, bbox.height);
      ctx.globalAlpha = 1;
    }
    const at = this.context.at();
    if (at !== null) {
      const left = plot.valToPos(at, "x", true);
      if (left >= bbox.left && left <= bbox.left + bbox.width) {
        ctx.fillStyle = coloured("--ink");
        ctx.fillRect(left - ratio / 2, bbox.top, 1.5 * ratio, bbox.height);
      }
    }
    ctx.restore();
  }

  drawLegend() {
    replace(this.legend, this.data.lines.map((line, index) => {
      const known = line.values.filter((each) => each !== null);
      const mean = known.length ? known.reduce((sum, each) => sum + each, 0) / known.length : null;
      const content = line.href ? element("a", { href: line.href }, line.name) : line.name;
      const figure = line.required ? tell(known[0] ?? null, this.unit) : `mean ${tell(mean, this.unit)}`;
      return element("li", {}, swatch(line, index), content, element("span", { class: "note" }, figure));
    }));
    if (this.data.lines.length === 0) {
      replace(this.legend, element("li", { class: "empty" }, "Nothing was told of this time."));
    }
  }

  drawGaps() {
    const spans = this.data.away || [];
    this.gaps.hidden = spans.length === 0;
    const told = spans.slice(0, 4).map((each) => `${each.node} from ${moment(each.from)} for ${span(each.to - each.from)} (${each.why})`);
    const more = spans.length > 4 ? `, and ${spans.length - 4} more times` : "";
    this.gaps.textContent = spans.length ? `Nothing is known of ${told.join("; ")}${more}. Sums are without it.` : "";
  }

  switchTable() {
    this.tabled = !this.tabled;
    this.toggle.setAttribute("aria-pressed", String(this.tabled));
    this.table.hidden = !this.tabled;
    if (this.tabled) {
      this.drawTable();
    }
  }

  drawTable() {
    const unit = UNITS[this.unit].name;
    const heads = ["Time (UTC)", ...this.data.lines.map((line) => `${line.name}, ${unit}`)];
    const rows = this.times.map((_, index) => {
      const told = this.data.lines.map((line) => (this.unit === "part" ? percent(line.values[index]) : number(line.values[index], this.unit)));
      return element("tr", {}, element("th", { scope: "row" }, moment(this.data.start + index * this.data.step)), told.map((each) => element("td", {}, each)));
    });
    rows.reverse();
    replace(this.table, element("table", {},
      element("caption", { class: "note" }, `${this.title}: means over steps of ${span(this.data.step)}, the newest first`),
      element("thead", {}, element("tr", {}, heads.map((each) => element("th", { scope: "col" }, each)))),
      element("tbody", {}, rows)));
  }
}

/* Hours and minutes, and the day below where it begins. */
function timeTexts(all, step) {
  let day = "";
  return all.map((at) => {
    const text = moment(at);
    const before = day;
    day = text.slice(0, 10);
    if (step >= 86400) {
      return day;
    }
    const time = step < 60 ? text.slice(11) : text.slice(11, 16);
    return day === before ? time : `${time}\n${day}`;
  });
}

function axisText(value) {
  return Math.abs(value) >= 10000 ? `${+(value / 1000).toPrecision(3)}k` : `${+value.toPrecision(4)}`;
}

function swatch(line, index) {
  const canvas = element("canvas", { class: "swatch", width: "44", height: "20", "aria-hidden": "true" });
  const ctx = canvas.getContext("2d");
  ctx.strokeStyle = coloured(line.required ? "--required" : COLOURS[index % COLOURS.length]);
  ctx.lineWidth = 5;
  ctx.setLineDash(line.required ? [12, 8] : DASHES[Math.floor(index / COLOURS.length) % DASHES.length].map((each) => each * 2));
  ctx.beginPath();
  ctx.moveTo(0, 10);
  ctx.lineTo(44, 10);
  ctx.stroke();
  return canvas;
}
