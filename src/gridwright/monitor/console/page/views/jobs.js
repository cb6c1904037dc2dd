/* Jobs and users: who moves how much; and of one job, its nodes and the targets that these use. */

import { element, replace } from "../element.js";
import { moment } from "../format.js";
import { cell, courseChart, PictureTable, side, viewOf } from "./parts.js";

const READ = "gridwright_job_read_bytes_total";
const WRITTEN = "gridwright_job_written_bytes_total";
const NAMED = {
  columns: [{ title: "user", words: true }, { title: "name", words: true }],
  cells: (row, picture) => {
    const facts = picture.jobs[row.key];
    return [cell(facts?.user ?? "–"), cell(facts?.name || "–")];
  },
};

export function jobs(root, context) {
  const job = context.state().chosen.job;
  return job ? oneJob(root, context, job) : allJobs(root, context);
}

function allJobs(root, context) {
  const { node, user } = context.state().chosen;
  const toJob = (name) => context.link({ chosen: { job: name } });
  const query = (metric) => ({ metric, by: "job", most: 8, node: node || null });
  const table = new PictureTable("Jobs", {
    link: (row) => (/^\d+ others$/.test(row.key) ? null : toJob(row.key)),
    more: NAMED,
    only: (row, picture) => (!node || (picture.jobNodes[row.key] || []).includes(node)) && (!user || picture.jobs[row.key]?.user === user),
    empty: "No job is seen. Without root only your own jobs are.",
    first: { title: "read MB/s", falling: true },
  });
  const users = new PictureTable("Users", {
    link: (row) => context.link({ chosen: { user: row.key } }),
    isChosen: (row) => row.key === user,
    empty: "No user of a job is known to you: the scheduler tells them, and you see your own, or all as an administrator.",
  });
  const served = new PictureTable("Jobs, as servers count", { first: { title: "read MB/s", falling: true } });
  const beside = new PictureTable("Beside jobs", { link: (row) => context.link({ view: "nodes", chosen: { node: row.key } }), first: { title: "read MB/s", falling: true } });
  return viewOf(root, context, {
    parts: [
      table,
      side(
        courseChart(context, { title: "Read, by job", unit: "rate", query: query(READ), href: toJob }),
        courseChart(context, { title: "Written, by job", unit: "rate", query: query(WRITTEN), href: toJob }),
      ),
      courseChart(context, { title: "CPU time, by job", unit: "cpus", query: query("gridwright_job_cpu_seconds_total"), href: toJob }),
      users,
      served,
      beside,
    ],
    tables: [table, users, served, beside],
  });
}

function oneJob(root, context, job) {
  const facts = element("dl", { class: "facts" });
  const heading = element("section", {}, element("h1", {}, `Job ${job}`), facts);
  const toNode = (name) => context.link({ view: "nodes", chosen: { node: name } });
  const toTarget = (name) => context.link({ view: "storage", chosen: { target: name } });
  const chart = (title, unit, query, href) => courseChart(context, { title, unit, query, href });
  const row = new PictureTable("Jobs", { only: (each) => each.key === job, empty: "It is not seen at this moment." });
  // Its nodes are known with the first picture; until then no target is asked for.
  const target = { node: [] };
  const targets = [
    chart("What its nodes read, by target", "rate", Object.assign(target, {}), toTarget),
    chart("What its nodes write, by target", "rate", {}, toTarget),
  ];
  const onTargets = side(...targets.map((each, index) => ({
    ...each,
    async update() {
      const found = await context.ask("series", {
        metric: `gridwright_mount_${index === 0 ? "read" : "written"}_bytes_total`, by: "target", node: await nodesOf(context, job), ...context.asked(300),
      });
      found.lines.forEach((line) => { line.href = toTarget(line.name); });
      each.chart.csv = null;
      each.chart.set(found);
    },
  })));
  return viewOf(root, context, {
    parts: [
      heading,
      onTargets,
      side(chart("Read, by node", "rate", { metric: READ, by: "node", job }, toNode), chart("Written, by node", "rate", { metric: WRITTEN, by: "node", job }, toNode)),
      side(
        chart("CPU time, by node", "cpus", { metric: "gridwright_job_cpu_seconds_total", by: "node", job }, toNode),
        chart("Memory, by node", "bytes", { metric: "gridwright_job_resident_bytes", by: "node", job }, toNode),
      ),
      row,
    ],
    tables: [row],
    also: (picture) => {
      const known = picture.jobs[job];
      const where = picture.jobNodes[job] || [];
      const told = [
        ["On", where.length ? element("span", {}, where.slice(0, 20).flatMap((each) => [element("a", { href: toNode(each) }, each), " "])) : "not seen at this moment"],
        ["User", known?.user ?? "told to its owner and to administrators"],
        ["Name", known?.name || "told to its owner and to administrators"],
        ["State", known?.state ?? "–"],
        ["Began", known?.started ? `${moment(known.started)} UTC` : "–"],
      ];
      replace(facts, told.map(([name, text]) => element("div", {}, element("dt", {}, name), element("dd", {}, text))));
    },
  });
}

/* Nodes on which it was seen within the range. */
async function nodesOf(context, job) {
  const found = await context.ask("series", { metric: "gridwright_job_processes", by: "node", job, most: 20, ...context.asked(20) });
  const names = found.lines.map((line) => line.name).filter((name) => context.about().nodes.includes(name));
  return names.length ? names : ["-"];
}
