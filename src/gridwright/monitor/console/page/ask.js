/* Asks the server: every question has an end, and an answer that is not wanted any more is dropped. */

const LONGEST_MS = 30000;
/* Reasons are looked for in many pictures. */
const LONGEST_WHY_MS = 180000;

export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

export function query(values) {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== null && each !== undefined && each !== "") {
        found.append(name, String(each));
      }
    }
  }
  return found.toString();
}

export function link(name, values = {}) {
  const text = query(values);
  return `api/${name}${text ? `?${text}` : ""}`;
}

export async function ask(name, values = {}, signal = undefined) {
  const limit = AbortSignal.timeout(name === "why" ? LONGEST_WHY_MS : LONGEST_MS);
  const response = await fetch(link(name, values), {
    signal: signal ? AbortSignal.any([signal, limit]) : limit,
    credentials: "same-origin",
    cache: "no-store",
  });
  if (!response.ok) {
    throw new Refused(response.status, await reason(response));
  }
  return response.json();
}

async function reason(response) {
  const text = await response.text();
  try {
    return JSON.parse(text).problems.map((each) => each.what).join("; ");
  } catch (_) {
    return text.trim().slice(0, 200);
  }
}
