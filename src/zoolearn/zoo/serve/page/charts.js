// What a zoo knows: every task with what its accuracy is worth, how it grew, and which member knows what.
// All accuracies are drawn from 0 to 100 %, in every zoo.

const percent = (value) => `${(100 * value).toFixed(1)} %`;
const plural = (count, word, words = `${word}s`) => `${count.toLocaleString("en")} ${count === 1 ? word : words}`;
const range = (share) => `${(100 * share.low).toFixed(0)}–${(100 * share.high).toFixed(0)} %`;
const url = (name) => `/tasks/${encodeURIComponent(name)}`;

const MOST_TASKS = 20; // shown at first
const MOST_CLASSES = 40; // of a matrix of what is taken for what
const MOST_MEMBERS = 60; // the newest, in the picture
let showsAll = false;

function shownTasks() {
  const wanted = byId("filter").value.trim().toLowerCase();
  const found = zoo.tasks.filter((task) => task.name.toLowerCase().includes(wanted));
  return showsAll || wanted ? found : found.slice(-MOST_TASKS);
}

function showTasks() {
  const many = known > MOST_TASKS;
  byId("find").hidden = !many;
  byId("all").textContent = showsAll ? `show the newest ${MOST_TASKS}` : `show all ${known.toLocaleString("en")}`;
  const shown = shownTasks();
  showTable(shown);
  showDetail();
  byId("growth").replaceChildren(...shown.map(chart));
  showPicture(shown);
}

// ---- a table of tasks

// From 0 to 100 %: a dot for the accuracy, a band for its interval, a line for the majority rate.
function meter(share, majority) {
  const x = (value) => 5 + 150 * value;
  return make("svg", { class: "meter", viewBox: "0 0 160 18", role: "img", "aria-label": `${percent(share.accuracy)}, ${range(share)}` },
    make("line", { class: "axis", x1: x(0), x2: x(1), y1: 9, y2: 9 }),
    [0, 1].map((end) => make("line", { class: "axis", x1: x(end), x2: x(end), y1: 6, y2: 12 })),
    make("rect", { class: "band", x: x(share.low), y: 5, width: Math.max(1, x(share.high) - x(share.low)), height: 8, rx: 4 }),
    majority === null || majority === undefined ? null : make("line", { class: "majority", x1: x(majority), x2: x(majority), y1: 1, y2: 17 }),
    make("circle", { class: "value", cx: x(share.accuracy), cy: 9, r: 4 }));
}

function showTable(tasks) {
  const head = ["task", "accuracy", "0 to 100 %", "95 %", "balanced", "most frequent", "confidence", "classes", "held out", "members"];
  const rows = tasks.map((task) => make("tr", { "data-task": task.name, class: task.name === chosenTask ? "chosen" : undefined },
    make("th", { scope: "row", class: "name" }, make("button", { type: "button", title: task.name, onclick: () => choose(task.name) }, task.name)),
    make("td", { class: "score" }, percent(task.accuracy), task.notes.length ? make("b", { class: "wrong", title: task.notes.join("; ") }, " !") : ""),
    make("td", { class: "drawn" }, meter(task, task.majority)),
    make("td", { "data-label": "95 %" }, range(task)),
    make("td", { "data-label": "balanced" }, percent(task.balanced_accuracy)),
    make("td", { "data-label": "most frequent", title: task.most_frequent ?? "" }, task.majority === null ? "?" : percent(task.majority)),
    make("td", { "data-label": "confidence" }, percent(task.confidence)),
    make("td", { class: "more" }, task.classes.length.toLocaleString("en")),
    make("td", { class: "more" }, task.rows_held_out.toLocaleString("en")),
    make("td", { class: "more" }, task.members.length.toLocaleString("en"))));
  byId("tasks").replaceChildren(make("table", { class: "tasks" },
    make("thead", {}, make("tr", {}, head.map((words) => make("th", { scope: "col" }, words)))), make("tbody", {}, rows)));
}

// ---- one task

let detailed = 0;

async function showDetail() {
  const number = (detailed += 1);
  const task = zoo.tasks.find((one) => one.name === chosenTask);
  if (!task) return byId("detail").replaceChildren();
  try {
    const scores = isReport ? SNAPSHOT["/scores"][task.name] : await askJson(`${url(task.name)}/scores`);
    if (number === detailed) byId("detail").replaceChildren(...detail(task, scores));
  } catch (error) {
    if (number === detailed) byId("detail").replaceChildren(make("p", { class: "wrong" }, error.message));
  }
}

function detail(task, scores) {
  const worst = Object.entries(scores.classes).filter(([, share]) => share.rows).sort((a, b) => a[1].accuracy - b[1].accuracy);
  const shown = worst.slice(0, 12);
  return [
    make("h3", {}, task.name),
    make("p", { class: "soft" }, `${plural(task.classes.length, "class", "classes")}, ${plural(task.members.length, "member")}. ${scores.right.toLocaleString("en")} of ${plural(scores.rows, "held-out row")} answered rightly; balanced accuracy ${percent(scores.balanced_accuracy)}. ` +
      `Always naming ${scores.most_frequent} would get ${percent(scores.majority)}. Log-loss ${scores.log_loss.toFixed(3)}, guessing by frequency ${scores.chance_log_loss.toFixed(3)}. ` +
      `Chances miss by ${percent(scores.calibration_error)} (expected calibration error).${zoo.features ? "" : ` Answers have the temperature ${task.temperature.toFixed(2)} that the held-out rows ask for.`}`),
    ...scores.notes.map((note) => make("p", { class: "wrong" }, note)),
    make("div", { class: "twofold" },
      make("table", { class: "tasks classes" },
        make("thead", {}, make("tr", {}, ["class", "recall", "0 to 100 %", "precision", "rows", "mistaken for"].map((words) => make("th", { scope: "col" }, words)))),
        make("tbody", {}, shown.map(([name, share]) => make("tr", {},
          make("th", { scope: "row", class: "name" }, name),
          make("td", { class: "score" }, percent(share.accuracy)),
          make("td", { class: "drawn" }, meter(share)),
          make("td", { "data-label": "precision" }, share.precision === null ? "" : percent(share.precision)),
          make("td", { "data-label": "rows" }, share.rows.toLocaleString("en")),
          make("td", { "data-label": "mistaken for", class: "words" }, mistakes(task, scores, name)))))),
      calibration(scores)),
    worst.length > shown.length ? make("p", { class: "soft" }, `The ${shown.length} of ${worst.length} classes that are answered worst.`) : "",
    ...confusion(task, scores),
  ];
}

// Rows of a class (down) by what was answered (across), shaded by their share of the class.
function confusion(task, scores) {
  if (task.classes.length > MOST_CLASSES) return [make("p", { class: "soft" }, `What is taken for what is drawn up to ${MOST_CLASSES} classes; this task has ${task.classes.length.toLocaleString("en")}.`)];
  const cell = (count, row, column) => {
    const total = scores.confusion[row].reduce((sum, one) => sum + one, 0);
    const words = `${task.classes[row]} answered as ${task.classes[column]}: ${count} of ${total}`;
    const made = make("td", { class: row === column ? "right" : "", title: words }, count ? count.toLocaleString("en") : "");
    made.style.setProperty("--share", `${(100 * count / Math.max(1, total)).toFixed(0)}%`);
    return made;
  };
  return [
    make("h4", { id: "confusion-title" }, "What is taken for what"),
    make("p", { class: "soft" }, "Rows of a class (down) by what was answered (across)."),
    make("div", { id: "confusion", class: "wide", tabindex: 0, role: "region", "aria-labelledby": "confusion-title" },
      make("table", { class: "confusion" },
        make("thead", {}, make("tr", {}, make("td"), task.classes.map((name) => make("th", { scope: "col", title: name }, make("span", {}, name))))),
        make("tbody", {}, scores.confusion.map((counts, row) => make("tr", {},
          make("th", { scope: "row", title: task.classes[row] }, task.classes[row]), counts.map((count, column) => cell(count, row, column))))))),
  ];
}

function mistakes(task, scores, name) {
  const place = task.classes.indexOf(name);
  return scores.confusion[place].map((count, said) => [count, task.classes[said]])
    .filter(([count], said) => count && said !== place).sort((a, b) => b[0] - a[0]).slice(0, 3)
    .map(([count, said]) => `${said} (${count})`).join(", ");
}

// Of answers of about one confidence, how many were right: on the line, confidence can be believed.
function calibration(scores) {
  const [size, left, bottom, room] = [150, 34, 28, 8];
  const x = (value) => left + (size - left - room) * value;
  const y = (value) => room + (size - room - bottom) * (1 - value);
  const most = Math.max(...scores.calibration.map((part) => part.rows));
  return make("figure", { class: "chart" },
    make("figcaption", {}, make("span", {}, "Of answers of about one confidence, how many were right")),
    make("svg", { viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": scores.calibration.map((part) => `${percent(part.confidence)} sure: ${percent(part.accuracy)} right of ${part.rows}`).join(", ") },
      [0, 0.5, 1].map((value) => make("g", {},
        make("line", { class: "grid", x1: x(0), x2: x(1), y1: y(value), y2: y(value) }),
        make("text", { x: left - 4, y: y(value) + 3, "text-anchor": "end" }, `${100 * value} %`),
        make("text", { x: x(value), y: size - bottom + 13, "text-anchor": "middle" }, `${100 * value}`))),
      make("text", { x: x(0.5), y: size - 3, "text-anchor": "middle" }, "confidence, %"),
      make("line", { class: "dashed", x1: x(0), x2: x(1), y1: y(0), y2: y(1) }),
      scores.calibration.map((part) => make("g", {},
        make("line", { class: "error", x1: x(part.confidence), x2: x(part.confidence), y1: y(part.low), y2: y(part.high) }),
        make("circle", { class: "latest", cx: x(part.confidence), cy: y(part.accuracy), r: 2 + 3 * Math.sqrt(part.rows / most) },
          make("title", {}, `${percent(part.confidence)} sure: ${part.right} of ${part.rows} right`))))));
}

// ---- how it grew

function chart(task) {
  const [width, height, left, top, bottom, right] = [180, 100, 34, 8, 18, 10];
  const x = (episode) => left + (width - left - right) * (zoo.episodes > 1 ? (episode - 1) / (zoo.episodes - 1) : 0.5);
  const y = (value) => top + (height - top - bottom) * (1 - value);
  const points = task.history;
  const steps = points.map((point, place) => `${place ? `H${x(point.episode)}V` : `M${x(point.episode)},`}${y(point.accuracy)}`).join("");
  const words = points.map((point) => `${percent(point.accuracy)} after episode ${point.episode}`).join(", ");
  const ends = zoo.episodes > 1 ? [1, zoo.episodes] : [1];
  return make("figure", { class: "chart" },
    make("figcaption", {}, make("span", { title: task.name }, task.name), make("b", {}, percent(task.accuracy))),
    make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `accuracy of ${task.name}: ${words}` },
      [0, 0.5, 1].map((value) => make("g", {},
        make("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }),
        make("text", { x: left - 4, y: y(value) + 3, "text-anchor": "end" }, `${100 * value} %`))),
      task.majority === null ? null : make("line", { class: "dashed", x1: left, x2: width - right, y1: y(task.majority), y2: y(task.majority) }),
      ends.map((episode) => make("text", { x: x(episode), y: height - 4, "text-anchor": "middle" }, String(episode))),
      zoo.episodes > 2 ? make("text", { x: x((1 + zoo.episodes) / 2), y: height - 4, "text-anchor": "middle" }, "episode") : null,
      make("path", { class: "curve", d: points.length ? `${steps}H${x(zoo.episodes)}` : "" }),
      make("line", { class: "error", x1: x(zoo.episodes), x2: x(zoo.episodes), y1: y(task.low), y2: y(task.high) }),
      points.map((point, place) => make("circle", { cx: x(point.episode), cy: y(point.accuracy), r: 2.6, class: place === points.length - 1 ? "latest" : undefined },
        make("title", {}, `episode ${point.episode}: ${percent(point.accuracy)}`)))));
}

// ---- who knows what

const MARKS = { own: "its own task", replayed: "replayed", fitted: "head fitted", pruned: "not asked", none: "not seen" };
const OF_STATISTICS = { own: "made of its rows", replayed: "made again as it grew", pruned: "made before it grew", none: "not seen" }; // on features nothing is trained
const MEANINGS = { own: "trained on it when it was new", replayed: "replayed it later", fitted: "has a head that was fitted to it", pruned: "knows it, but is not asked" };

function mark(task, member) {
  const fitted = member.fitted.includes(task.name);
  if (!fitted && !member.trained_on.includes(task.name)) return "none";
  if (!(task.name in member.votes_on)) return "pruned";
  if (fitted) return "fitted";
  return member.episode === task.episode ? "own" : "replayed";
}

function showPicture(tasks) {
  const known = (member) => tasks.some((task) => mark(task, member) !== "none");
  const shown = members.filter(known).slice(-MOST_MEMBERS);
  const kinds = new Set();
  const rows = tasks.map((task) => make("tr", { "data-task": task.name, class: task.name === chosenTask ? "chosen" : undefined },
    make("th", { scope: "row", class: "name", title: task.name }, task.name),
    shown.map((member) => {
      const kind = mark(task, member);
      const words = (zoo.features ? OF_STATISTICS : MARKS)[kind];
      kinds.add(kind);
      return make("td", { title: `${task.name}, member ${member.number}: ${words}` },
        make("span", { class: `dot ${kind}` }), make("span", { class: "unseen" }, words));
    })));
  const head = make("tr", {}, make("th", { class: "name", scope: "col" }, "member"),
    shown.map((member) => make("th", { scope: "col", title: `member ${member.number}: episode ${member.episode}, ${(member.bytes / 1e6).toFixed(2)} MB, ${zoo.features ? "made" : "trained"} in ${member.seconds.toFixed(1)} s` }, String(member.number))));
  byId("who").replaceChildren(make("table", { class: shown.length > 24 ? "who close" : "who" }, make("thead", {}, head), make("tbody", {}, rows)));
  byId("legend").replaceChildren(...Object.keys(MEANINGS).filter((kind) => kinds.has(kind)).map((kind) =>
    make("span", { class: "legend" }, make("span", { class: `dot ${kind}` }), (zoo.features ? OF_STATISTICS : MEANINGS)[kind])),
  ...(shown.length === MOST_MEMBERS && members.length > MOST_MEMBERS ? [`The newest ${MOST_MEMBERS} of ${members.length} members.`] : []));
}
