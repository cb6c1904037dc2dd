/* Figures and times as people read them. Times are UTC, as in run directories and in `gridwright top`. */

export const NOTHING = "–";

function digits(value) {
  const size = Math.abs(value);
  if (size === 0) {
    return "0";
  }
  if (size >= 99.5) {
    return Math.round(value).toString();
  }
  return size >= 9.95 ? value.toFixed(1) : size >= 0.1 ? value.toFixed(2) : value.toPrecision(2);
}

function bytes(value) {
  const names = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let scaled = value;
  let index = 0;
  while (Math.abs(scaled) >= 1024 && index < names.length - 1) {
    scaled /= 1024;
    index += 1;
  }
  return `${digits(scaled)} ${names[index]}`;
}

/* Of each unit: its name on the axis, what a value is divided by there, and how one is told alone. */
export const UNITS = {
  rate: { name: "MB/s", scale: 1e6, tell: (value) => `${digits(value / 1e6)} MB/s` },
  core: { name: "MB/s per core", scale: 1e6, tell: (value) => `${digits(value / 1e6)} MB/s per core` },
  part: { name: "%", scale: 0.01, tell: (value) => `${digits(value * 100)} %` },
  cpus: { name: "CPUs", scale: 1, tell: (value) => `${digits(value)} CPUs` },
  bytes: { name: "GiB", scale: 2 ** 30, tell: bytes },
  count: { name: "per second", scale: 1, tell: (value) => `${digits(value)} per second` },
};

export function tell(value, unit) {
  return value === null || value === undefined ? NOTHING : UNITS[unit].tell(value);
}

export function number(value, unit) {
  return value === null || value === undefined ? NOTHING : digits(value / UNITS[unit].scale);
}

export function percent(value) {
  return value === null || value === undefined ? NOTHING : `${digits(value * 100)} %`;
}

export function moment(seconds, withSeconds = true) {
  const text = new Date(seconds * 1000).toISOString();
  return `${text.slice(0, 10)} ${text.slice(11, withSeconds ? 19 : 16)}`;
}

export function forInput(seconds) {
  return new Date(seconds * 1000).toISOString().slice(0, 19);
}

export function fromInput(text) {
  const at = Date.parse(`${text}Z`);
  return Number.isNaN(at) ? null : at / 1000;
}

export function span(seconds) {
  const units = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
  for (const [name, length] of units) {
    const count = seconds / length;
    if (count >= 1.5 || length === 1) {
      const rounded = count < 10 && count % 1 > 0.04 ? count.toFixed(1) : Math.round(count);
      return `${rounded} ${name}${Number(rounded) === 1 ? "" : "s"}`;
    }
  }
  return "";
}
