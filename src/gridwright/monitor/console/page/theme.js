/* Dark and light: what the system says, until the viewer chooses. */

const KEY = "gridwright-theme";
const dark = window.matchMedia("(prefers-color-scheme: dark)");

function kept() {
  try {
    return localStorage.getItem(KEY);
  } catch (_) {
    return null;
  }
}

function keep(value) {
  try {
    localStorage.setItem(KEY, value);
  } catch (_) {
    // A browser that keeps nothing shows what the system says next time.
  }
}

export function switchTheme() {
  keep(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  apply();
}

let redraw = () => {};

function apply() {
  const theme = kept() || (dark.matches ? "dark" : "light");
  document.documentElement.dataset.theme = theme;
  document.getElementById("theme").textContent = theme === "dark" ? "Light" : "Dark";
  redraw();
}

export function beginTheme(whenChanged) {
  redraw = whenChanged;
  document.getElementById("theme").addEventListener("click", switchTheme);
  dark.addEventListener("change", apply);
  apply();
}
