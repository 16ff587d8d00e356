// Draws the figures of this page: their data is in #figures as JSON, the chart library beside it, compressed.
"use strict";

const figures = JSON.parse(document.getElementById("figures").textContent);
const shown = new Map(); // name of a figure -> number of its frame
const root = document.documentElement;
const darkness = matchMedia("(prefers-color-scheme: dark)");

// Okabe and Ito's colours, told apart with any kind of colour vision; a lighter set for dark ground.
const PALETTES = {
  light: ["#0072B2", "#D55E00", "#009E73", "#B0508A", "#8F6400", "#2C8FBF", "#333333", "#7A5195"],
  dark: ["#5AB4F0", "#FF9A56", "#35D0A0", "#F0A0CC", "#E8C048", "#9AD8FF", "#E0E0E0", "#C4A5E8"],
};
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
const SMALL_DASHES = ["solid", "4px,2px", "2px,2px", "6px,2px,2px,2px", "8px,2px", "6px,2px"]; // where lines are short
const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "triangle-down", "pentagon", "star", "hexagon"];
// Both keep their order in grey: cividis for amounts, blue against orange for better and worse.
const AMOUNTS = [[0, "#00224E"], [0.25, "#414D6B"], [0.5, "#7C7B78"], [0.75, "#BCAF6F"], [1, "#FEE838"]];
const CHANGES = {
  light: [[0, "#9E3D00"], [0.25, "#EE9B57"], [0.5, "#F7F7F7"], [0.75, "#6FB1DC"], [1, "#00508C"]],
  dark: [[0, "#FFA15C"], [0.25, "#A85A24"], [0.5, "#22272F"], [0.75, "#2E77AC"], [1, "#7CC8FF"]],
};

let printing = false;
const isDark = () => !printing && root.dataset.theme === "dark";
const pick = (sets) => (isDark() ? sets.dark : sets.light);
const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
const ink = () => (printing ? "#1d2430" : css("--ink"));
const rule = () => (printing ? "#d9dee6" : css("--line"));
const faint = (hex, alpha) => `rgba(${[1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)).join(",")},${alpha})`;
const some = (values) => values && values.length > 0;
const escaped = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");

const short = (text, room) => (text.length <= room ? text : `${text.slice(0, Math.max(3, Math.floor(room) - 1))}…`);

function base(width) {
  return {
    font: { family: getComputedStyle(document.body).fontFamily, size: width < 500 ? 11 : 13, color: ink() },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    hoverlabel: { bgcolor: isDark() ? "#2a323e" : "#ffffff", bordercolor: rule(), font: { color: ink() }, align: "left" },
    dragmode: false,
    scattermode: "group", // points in one category stand side by side
    scattergap: 0.75,
    hovermode: "closest",
  };
}

const axis = (title, more) => ({
  title: { text: title, standoff: 8, font: { size: 13 } }, gridcolor: rule(), linecolor: rule(), zerolinecolor: rule(), automargin: true, ...more,
});

// 1, 2, 5 in each power of ten that the points span, or the powers alone where that would be crowded.
function logTicks(panel) {
  const all = panel.series.flatMap((series) => series.x).map(Math.log10);
  const low = Math.floor(Math.min(...all)), high = Math.ceil(Math.max(...all));
  const steps = Math.max(...all) - Math.min(...all) > 1.6 ? [1] : [1, 2, 5];
  const values = [];
  for (let power = low; power <= high; power += 1) for (const step of steps) values.push(step * 10 ** power);
  return { tickvals: values, ticktext: values.map((value) => si(value)) };
}

function wholeTicks(panels) {
  const all = panels.flatMap((panel) => panel.series.flatMap((series) => series.x));
  if (all.some((x) => typeof x === "string")) return { type: "category" };
  const few = all.every(Number.isInteger) && Math.max(...all) - Math.min(...all) < 8;
  return few ? { dtick: 1 } : { exponentformat: "SI" };
}

function si(value) {
  for (const [size, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) if (value >= size) return `${Number((value / size).toPrecision(3))}${letter}`;
  return String(Number(value.toPrecision(3)));
}

function traces(series, panel, seen, chart) {
  const colour = pick(PALETTES)[series.colour % 8];
  const axes = { xaxis: `x${panel || ""}`, yaxis: `y${panel || ""}` };
  const first = !seen.has(series.name);
  seen.add(series.name);
  const single = series.style === "points" || series.style === "crosses";
  const spread = some(series.spread) && series.spread.some((value) => value !== null);
  const around = spread ? " ± %{customdata[0]:.2f}" : "";
  const y = chart.log_y ? "%{y:.3g}" : "%{y:.2f}";
  const main = {
    type: "scatter", name: series.name, x: series.x, y: series.y, legendgroup: series.name, showlegend: first,
    mode: single ? "markers" : series.style === "dashes" || series.x.length > 11 || chart.panels.length > 6 ? "lines" : "lines+markers",
    line: {
      color: colour, width: 2,
      dash: series.style === "dashes" ? "dash" : (chart.panels.length > 6 ? SMALL_DASHES : DASHES)[series.colour % DASHES.length],
    },
    marker: {
      color: colour, size: series.style === "crosses" ? 9 : chart.panels.length > 6 ? 6 : single ? 11 : 6, line: { width: series.style === "crosses" ? 2 : 0, color: colour },
      symbol: series.style === "crosses" ? "x-thin" : SYMBOLS[series.colour % SYMBOLS.length],
    },
    customdata: series.x.map((_, at) => [spread ? series.spread[at] : null, some(series.notes) ? series.notes[at] : ""]),
    hovertemplate: `<b>${escaped(series.name)}</b><br>${escaped(panel ? chart.panels[panel - 1].x_label : chart.panels[0].x_label)} %{x}: ${y}${around}<br>%{customdata[1]}<extra></extra>`,
    ...axes,
  };
  if (!spread) return [main];
  if (single) {
    main.error_y = { type: "data", array: series.spread.map((value) => value || 0), color: colour, thickness: 1.5, width: 4 };
    return [main];
  }
  const edge = (sign) => series.y.map((value, at) => (value === null ? null : value + sign * (series.spread[at] || 0)));
  const quiet = {
    type: "scatter", x: series.x, mode: "lines", line: { width: 0, color: colour }, hoverinfo: "skip", showlegend: false,
    legendgroup: series.name, ...axes,
  };
  return [{ ...quiet, y: edge(-1) }, { ...quiet, y: edge(1), fill: "tonexty", fillcolor: faint(colour, 0.2) }, main];
}

function range(panels) {
  let low = Infinity, high = -Infinity;
  for (const panel of panels) for (const series of panel.series) series.y.forEach((value, at) => {
    if (value === null) return;
    const half = some(series.spread) ? series.spread[at] || 0 : 0;
    low = Math.min(low, value - half);
    high = Math.max(high, value + half);
  });
  const room = Math.max(high - low, 1e-9) * 0.06;
  return [low - room, high + room];
}

/** How many rows the names of lines fill, one after the other. */
function legendRows(names, width) {
  let rows = 1, used = 0;
  for (const name of names) {
    const size = 45 + 7 * name.length;
    if (used && used + size > width) { rows += 1; used = 0; }
    used += size;
  }
  return rows;
}

function drawPlot(chart, width) {
  const count = chart.panels.length;
  const auto = count <= 4 ? (width < 900 ? 2 : count) : 5;
  const wanted = count === 1 ? 1 : width < 500 ? (count > 6 ? 2 : 1) : chart.columns || auto;
  const columns = Math.min(count, wanted), rows = Math.ceil(count / columns);
  const wide = count > 1 && chart.panels.some((panel) => panel.x_label !== chart.panels[0].x_label);
  const layout = {
    ...base(width), annotations: [],
    legend: { orientation: "h", x: 0, xanchor: "left", y: 1, yanchor: "top", yref: "container", itemsizing: "constant" },
  };
  const data = [], seen = new Set(), shared = chart.share_y && !chart.log_y ? range(chart.panels) : undefined;
  const gapX = columns > 1 ? (!chart.share_y ? 0.07 : columns > 2 ? 0.025 : 0.09) : 0;
  const rowHeight = count === 1 ? (width < 500 ? 300 : 380) : wide || count <= 4 ? 250 : !chart.share_y ? 190 : columns === 2 ? 120 : 135;
  const gap = (wide ? 78 : count > 1 ? 36 : 0);
  const plotHeight = rows * rowHeight + (rows - 1) * gap;
  chart.panels.forEach((panel, at) => {
    const row = Math.floor(at / columns), column = at % columns, key = at ? at + 1 : "";
    const size = (1 - gapX * (columns - 1)) / columns;
    const left = column * (size + gapX), top = 1 - (row * (rowHeight + gap)) / plotHeight, bottom = top - rowHeight / plotHeight;
    const lowest = at + columns >= count;
    layout[`xaxis${key}`] = axis(count === 1 || wide || (lowest && column === 0) ? panel.x_label : "", {
      domain: [left, Math.min(1, left + size)], anchor: `y${key}`, type: panel.log_x ? "log" : "linear", nticks: count > 4 ? 4 : undefined,
      showticklabels: count <= 4 || lowest, ...(panel.log_x ? logTicks(panel) : wholeTicks(wide ? [panel] : chart.panels)),
      ...(count > 1 && !wide ? { matches: at ? "x" : undefined } : {}),
    });
    layout[`yaxis${key}`] = axis(column === 0 && (count === 1 || wide || !chart.share_y || row === Math.floor((rows - 1) / 2)) ? chart.y_label : "", {
      domain: [Math.max(0, bottom), Math.min(1, top)], anchor: `x${key}`, type: chart.log_y ? "log" : undefined, nticks: count > 4 ? 4 : undefined,
      showticklabels: column === 0 || !chart.share_y, range: shared, rangemode: chart.share_y ? "normal" : "tozero", ...(chart.log_y ? { exponentformat: "power", dtick: 1 } : {}),
    });
    if (panel.title) layout.annotations.push({
      text: escaped(short(panel.title, (size * (width - 68)) / (width < 500 ? 6 : 6.6))), hovertext: escaped(panel.title), xref: "paper", yref: "paper", x: left + size / 2, y: top, xanchor: "center", yanchor: "bottom",
      showarrow: false, font: { size: width < 500 ? 11 : 12, color: ink() }, yshift: 1,
    });
    for (const series of panel.series) data.push(...traces(series, at ? at + 1 : 0, seen, chart));
  });
  const legend = seen.size > 1 || count > 1 ? 30 * legendRows([...seen], width - 68) + 10 : 0;
  layout.showlegend = legend > 0;
  const top = legend + (count > 1 ? 32 : 12);
  layout.margin = { l: 56, r: 12, t: top, b: 52 };
  layout.height = plotHeight + top + 52;
  return { data, layout };
}

function drawMap(chart, width) {
  const colours = some(chart.shades) ? chart.shades : chart.values;
  const numbers = colours.flat().filter((value) => value !== null);
  const limit = Math.max(1e-9, ...numbers.map(Math.abs));
  const longest = Math.max(...chart.rows.map((name) => name.length));
  const longColumns = Math.max(...chart.columns.map((name) => name.length));
  const letter = width < 500 ? 5.2 : 7;
  const left = Math.min(longest * letter + 16, width * 0.4);
  const cell = (width - left - 90) / chart.columns.length;
  const texts = chart.values.map((row) => row.map((value) => (value === null ? "" : value.toFixed(cell > 52 ? 2 : cell > 30 ? 1 : 0).replace(/^-(0(\.0*)?)$/, "$1"))));
  const said = chart.values.map((row, r) => row.map((value, c) => {
    if (value === null) return "";
    const parts = [`<b>${escaped(chart.rows[r])}</b>, ${escaped(chart.column_label)} ${escaped(chart.columns[c])}`];
    const spread = some(chart.spread) && chart.spread[r][c] !== null ? ` ± ${chart.spread[r][c].toFixed(2)}` : "";
    parts.push(`${escaped(chart.value_label)}: ${value.toFixed(2)}${spread}`);
    if (some(chart.shades) && chart.shades[r][c] !== null) parts.push(`against the median of its row: ${chart.shades[r][c].toFixed(2)}`);
    if (some(chart.marks) && chart.marks[r][c]) parts.push(escaped(chart.mark_label));
    if (some(chart.notes) && chart.notes[r][c]) parts.push(escaped(chart.notes[r][c]));
    return parts.join("<br>");
  }));
  const size = Math.max(20, Math.min(34, cell));
  const height = size * chart.rows.length;
  const data = [{
    type: "heatmap", z: colours, x: chart.columns, y: chart.rows, xgap: 1, ygap: 1, hoverongaps: false,
    text: said, hovertemplate: "%{text}<extra></extra>",
    ...(chart.centred ? { zmin: -limit, zmax: limit, colorscale: pick(CHANGES) } : { colorscale: AMOUNTS }),
    colorbar: {
      title: { text: width < 500 ? "" : chart.centred && some(chart.shades) ? "less the row's median" : chart.value_label, side: "right" },
      thickness: width < 500 ? 8 : 14, len: 1, outlinewidth: 0, tickfont: { size: 11, color: ink() },
    },
  }];
  const layout = {
    ...base(width), height: height + 120, margin: { l: left, r: width < 500 ? 36 : 80, t: 16, b: 104 },
    xaxis: axis(chart.column_label, {
      type: "category", showgrid: false, range: [-0.5, chart.columns.length - 0.5], tickangle: longColumns > 4 && cell < 8 * longColumns ? -60 : 0,
    }),
    yaxis: axis("", {
      tickmode: "array", tickvals: chart.rows, ticktext: chart.rows.map((name) => escaped(short(name, (left - 14) / letter))),
      type: "category", range: [chart.rows.length - 0.5, -0.5], showgrid: false, automargin: false, tickfont: { size: width < 500 ? 9 : 12 },
    }),
  };
  if (longColumns <= 4) { layout.margin.b = 56; layout.height = height + 72; }
  if (some(chart.marks) && chart.mark_style === "dot") {
    const x = [], y = [], text = [];
    chart.marks.forEach((row, r) => row.forEach((marked, c) => {
      if (marked && chart.values[r][c] !== null) { x.push(chart.columns[c]); y.push(chart.rows[r]); text.push(said[r][c]); }
    }));
    data.push({
      type: "scatter", mode: "markers", x, y, text, hovertemplate: "%{text}<extra></extra>", showlegend: false,
      marker: { color: "#ffffff", size: Math.max(4, Math.min(9, cell * 0.3)), line: { color: "#000000", width: 1 } },
    });
  } else if (cell > 20) {
    layout.annotations = [];
    texts.forEach((row, r) => row.forEach((text, c) => {
      if (!text) return;
      const part = chart.centred ? Math.abs(colours[r][c]) / limit : null;
      const span = Math.max(...numbers) - Math.min(...numbers) || 1;
      const bright = chart.centred ? (isDark() ? part > 0.75 : part < 0.65) : (colours[r][c] - Math.min(...numbers)) / span > 0.55;
      layout.annotations.push({
        x: c, y: r, text: some(chart.marks) && chart.marks[r][c] ? `<b>${text}</b>` : text, showarrow: false, font: { size: cell > 36 ? 11 : 9, color: bright ? "#111111" : "#ffffff" },
      });
    }));
  }
  return { data, layout };
}

function draw(figure) {
  const place = document.getElementById(`chart-${figure.name}`);
  const chart = figure.frames[shown.get(figure.name) || 0];
  const width = printing ? 680 : place.clientWidth;
  const { data, layout } = chart.kind === "map" ? drawMap(chart, width) : drawPlot(chart, width);
  layout.width = width;
  const picture = { format: "svg", filename: figure.name };
  return Plotly.react(place, data, layout, { displaylogo: false, responsive: false, displayModeBar: width > 500 ? "hover" : false,
    toImageButtonOptions: picture, modeBarButtonsToRemove: ["zoom2d", "pan2d", "select2d", "lasso2d", "zoomIn2d", "zoomOut2d", "autoScale2d", "resetScale2d"] });
}

const drawAll = () => figures.forEach(draw);

async function drawInTurn() { // so that the reader can scroll while the rest is drawn
  for (const figure of figures) {
    await draw(figure);
    await new Promise((next) => setTimeout(next));
  }
}

function setTheme(theme) {
  root.dataset.theme = theme;
  document.getElementById("theme").textContent = theme === "dark" ? "Light" : "Dark";
}

function listen() {
  document.getElementById("theme").addEventListener("click", () => {
    setTheme(root.dataset.theme === "dark" ? "light" : "dark");
    drawAll();
  });
  darkness.addEventListener("change", () => { setTheme(darkness.matches ? "dark" : "light"); drawAll(); });
  let width = innerWidth, waiting;
  addEventListener("resize", () => {
    clearTimeout(waiting);
    if (innerWidth !== width) waiting = setTimeout(() => { width = innerWidth; drawAll(); }, 150);
  });
  addEventListener("beforeprint", () => { printing = true; drawAll(); });
  addEventListener("afterprint", () => { printing = false; drawAll(); });
  for (const control of document.querySelectorAll("[data-figure]")) {
    control.addEventListener("input", () => {
      const figure = figures.find((each) => each.name === control.dataset.figure);
      shown.set(figure.name, Number(control.value));
      const label = document.getElementById(`value-${figure.name}`);
      if (label) label.textContent = figure.frames[Number(control.value)].name;
      draw(figure);
    });
    shown.set(control.dataset.figure, Number(control.value));
  }
}

async function library() {
  const packed = Uint8Array.from(atob(document.getElementById("library").textContent.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = document.createElement("script");
  script.textContent = await new Response(stream).text();
  document.head.append(script);
}

setTheme(darkness.matches ? "dark" : "light");
if (figures.length) {
  library().then(() => { listen(); return drawInTurn(); }).then(() => { root.dataset.ready = "yes"; }).catch((error) => {
    console.error(error);
    for (const place of document.querySelectorAll(".chart")) {
      place.innerHTML = '<p class="missing">The charts need a browser of 2023 or later. The data is in the CSV files below.</p>';
    }
  });
} else {
  listen();
  root.dataset.ready = "yes";
}
