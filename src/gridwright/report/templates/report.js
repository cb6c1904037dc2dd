/* Draws the charts in the page's own colours, redraws them when light or dark changes, and keeps a
   light picture of each for paper. */
(function () {
  "use strict";

  const root = document.documentElement;
  const figures = JSON.parse(document.getElementById("chart-data").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const PAPER_WIDTH = 700;

  /* A colour such as "--read" names a custom property of the style sheet, as `element` sees it. */
  function coloured(value, style) {
    if (typeof value === "string") {
      return value.startsWith("--") ? style.getPropertyValue(value).trim() : value;
    }
    if (Array.isArray(value)) {
      return value.map(function (item) { return coloured(item, style); });
    }
    if (value !== null && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(function (pair) {
        return [pair[0], coloured(pair[1], style)];
      }));
    }
    return value;
  }

  /* plotly.js writes into what it is given, so every drawing starts from a fresh copy. */
  function figureFor(name, element) {
    const style = getComputedStyle(element);
    const figure = coloured({ data: figures[name].data, layout: figures[name].layout }, style);
    figure.layout.font.family = style.fontFamily;
    return figure;
  }

  function draw(name) {
    const box = document.getElementById("chart-" + name);
    const figure = figureFor(name, box);
    figure.config = {
      displaylogo: false,
      responsive: true,
      showTips: false,
      modeBarButtons: [["toImage"]],
      toImageButtonOptions: { format: "svg", filename: "gridwright-" + name },
    };
    return Plotly.react(box, figure.data, figure.layout, figure.config);
  }

  async function drawForPaper(name) {
    const box = document.getElementById("chart-" + name);
    const picture = document.createElement("img");
    picture.className = "paper";
    picture.alt = box.getAttribute("aria-label");
    box.after(picture);
    const figure = figureFor(name, picture);
    picture.src = await Plotly.toImage(figure, {
      format: "svg", width: PAPER_WIDTH, height: Math.round(figures[name].height * 0.85),
    });
    await picture.decode();
    box.parentElement.classList.add("has-paper");
  }

  async function drawAll() {
    const names = Object.keys(figures);
    for (const name of names) {
      await draw(name);
    }
    root.dataset.charts = "drawn";
    for (const name of names) {
      await drawForPaper(name);
    }
    root.dataset.charts = "ready";
  }

  dark.addEventListener("change", function () {
    Object.keys(figures).forEach(draw);
  });

  /* The clipboard interface is missing where a browser trusts no local file; then text is selected. */
  function offerCopy() {
    const button = document.getElementById("copy");
    if (button === null) {
      return;
    }
    const command = document.getElementById("repeat-command");
    const status = document.getElementById("copied");
    function select() {
      const range = document.createRange();
      range.selectNodeContents(command);
      const selection = window.getSelection();
      selection.removeAllRanges();
      selection.addRange(range);
    }
    async function copy() {
      try {
        await navigator.clipboard.writeText(command.textContent);
        status.textContent = "Copied";
      } catch (refused) {
        select();
        status.textContent = document.execCommand("copy") ? "Copied" : "Selected: press Ctrl+C";
      }
    }
    button.hidden = false;
    button.addEventListener("click", copy);
  }

  offerCopy();
  drawAll();
})();
