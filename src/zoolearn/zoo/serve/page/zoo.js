// The page of a zoo: its picture, how it grew, and a place to ask and to teach it.

let zoo = null; // what GET /tasks says
let members = [];
let chosenTask = null;
const UNKNOWN = ""; // the zoo is to find out the task by itself

const percent = (value) => `${(100 * value).toFixed(1)} %`;
const plural = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
const url = (name) => `/tasks/${encodeURIComponent(name)}`;
const takesImages = () => zoo.shape === null || zoo.shape.length === 3;

async function load() {
  const [tasks, nets] = await Promise.all([askJson("/tasks"), askJson("/members")]);
  zoo = tasks;
  members = nets.members;
  if (chosenTask !== UNKNOWN && !zoo.tasks.some((task) => task.name === chosenTask)) chosenTask = zoo.tasks.at(-1)?.name ?? null;
  document.title = `${zoo.zoo} · zoo`;
  byId("title").textContent = zoo.zoo;
  byId("summary").textContent = [plural(zoo.tasks.length, "task"), plural(members.length, "member"), inputs(), `generation ${zoo.generation}`]
    .filter(Boolean).join(" · ");
  showQuestion();
  showPicture();
  showGrowth();
  byId("teach").hidden = !zoo.learns || !takesImages();
}

function inputs() {
  if (zoo.shape === null) return "";
  if (zoo.shape.length === 1) return `rows of ${plural(zoo.shape[0], "number")}`;
  const [channels, height, width] = zoo.shape;
  return `${channels === 1 ? "grey" : "colour"} images, ${width} × ${height}`;
}

// ---- asking

function showQuestion() {
  const choices = zoo.tasks.map((task) => [task.name, task.name]);
  if (zoo.tasks.length > 1 && zoo.tasks.every((task) => task.rows_kept)) choices.push([UNKNOWN, "(find it out)"]);
  else if (chosenTask === UNKNOWN) chosenTask = zoo.tasks.at(-1)?.name ?? null;
  byId("task").replaceChildren(...choices.map(([value, words]) => make("option", { value, selected: value === chosenTask }, words)));
  byId("task").disabled = zoo.tasks.length === 0;
  byId("drop").hidden = !takesImages() || zoo.tasks.length === 0;
  byId("numbers").hidden = takesImages();
  byId("drop-note").textContent = zoo.shape?.length === 3 ? `Any size; the zoo looks at ${zoo.shape[2]} × ${zoo.shape[1]} pixels of its middle.` : "";
  if (!byId("answer").childElementCount) hint();
}

function hint() {
  const words = zoo.tasks.length ? "The answer, and what each member says, comes here." : "The zoo has learned nothing yet.";
  byId("answer").replaceChildren(make("p", { class: "soft empty" }, words));
}

function choose(name) {
  chosenTask = name;
  byId("task").value = name;
  for (const row of document.querySelectorAll(".who tbody tr")) row.classList.toggle("chosen", row.dataset.task === name);
  if (lastQuestion) question(lastQuestion);
}

let lastQuestion = null;
let asked = 0;

async function question(options) {
  lastQuestion = options;
  const number = (asked += 1);
  try {
    const route = chosenTask === UNKNOWN ? "/recognise" : `${url(chosenTask)}/predict?votes=true`;
    const answer = await askJson(route, { method: "POST", ...options });
    if (number !== asked) return;
    if (answer.recognitions) showRecognition(answer.recognitions[0]);
    else showAnswer(answer.predictions[0]);
  } catch (error) {
    if (number === asked) byId("answer").replaceChildren(make("p", { class: "wrong" }, error.message));
  }
}

function askAbout(file) {
  if (!file || !takesImages() || chosenTask === null) return;
  URL.revokeObjectURL(byId("preview").src);
  byId("preview").src = URL.createObjectURL(file);
  byId("preview").alt = `the image ${file.name}`;
  byId("preview").hidden = false;
  question({ body: file, headers: { "Content-Type": file.type || "image/unknown" } });
}

function bar(value) {
  const filled = make("i");
  filled.style.width = `${100 * value}%`;
  return make("span", { class: "track", "aria-hidden": "true" }, filled);
}

function bars(values, best) {
  const sorted = Object.entries(values).sort((a, b) => b[1] - a[1]);
  const shown = sorted.slice(0, 5);
  return [
    make("dl", { class: "bars" }, shown.flatMap(([name, value]) => [
      make("dt", {}, name),
      make("dd", { class: name === best ? "" : "rest" }, bar(value), make("span", { class: "percent" }, percent(value))),
    ])),
    sorted.length > shown.length ? make("p", { class: "soft" }, `and ${sorted.length - shown.length} less probable`) : "",
  ];
}

function showRecognition(found) {
  const sure = found.task !== null;
  byId("answer").replaceChildren(
    make("p", { class: "soft" }, sure ? `${found.task}:` : "its task?"),
    make("p", { class: "verdict" }, sure ? found.class : "not sure"),
    make("p", { class: "soft" }, sure ? `${percent(found.probability)}, if the task is right` : "No task is likely enough, or it is like nothing that the zoo has seen."),
    make("h3", {}, "The chance of each task"),
    ...bars(found.chances, found.task),
  );
}

function showAnswer(prediction) {
  const votes = prediction.votes;
  const agree = votes.filter((vote) => vote.class === prediction.class).length;
  byId("answer").replaceChildren(
    make("p", { class: "soft" }, `${chosenTask}:`),
    make("p", { class: "verdict" }, prediction.class),
    make("p", { class: "soft" }, `${percent(prediction.probability)}, ${agree} of ${plural(votes.length, "member")} agree`),
    make("h3", {}, "The zoo"),
    ...bars(prediction.probabilities, prediction.class),
    make("h3", {}, "Each member’s vote"),
    make("dl", { class: "bars" }, votes.flatMap((vote) => [
      make("dt", {}, `member ${vote.member}`, vote.weight === 1 ? "" : make("small", {}, ` weight ${vote.weight.toFixed(2)}`)),
      make("dd", { class: vote.class === prediction.class ? "" : "other" }, bar(vote.probability),
        make("span", { class: "said" }, `${vote.class} ${percent(vote.probability)}`)),
    ])),
  );
}

// ---- the picture

const MARKS = { own: "its own task", replayed: "replayed", fitted: "head fitted", pruned: "pruned", none: "not seen" };

function mark(task, member) {
  const fitted = member.fitted.includes(task.name);
  if (!fitted && !member.trained_on.includes(task.name)) return "none";
  if (!(task.name in member.votes_on)) return "pruned";
  if (fitted) return "fitted";
  return member.episode === task.episode ? "own" : "replayed";
}

function showPicture() {
  const kinds = new Set();
  const rows = zoo.tasks.map((task) => {
    const first = task.history[0]?.accuracy ?? task.accuracy;
    const change = 100 * (task.accuracy - first);
    return make("tr", { "data-task": task.name, class: task.name === chosenTask ? "chosen" : undefined },
      make("th", { scope: "row", class: "name" }, make("button", { type: "button", title: `ask about ${task.name}`, onclick: () => choose(task.name) }, task.name)),
      members.map((member) => {
        const kind = mark(task, member);
        kinds.add(kind);
        return make("td", { title: `${task.name}, member ${member.number}: ${MARKS[kind]}` },
          make("span", { class: `dot ${kind}` }), make("span", { class: "unseen" }, MARKS[kind]));
      }),
      make("td", { class: "score" }, percent(task.accuracy)),
      make("td", { class: "score change", title: "points since it was learned" }, task.history.length > 1 ? `${change >= 0 ? "+" : "−"}${Math.abs(change).toFixed(1)}` : ""));
  });
  const head = make("tr", {}, make("th", { class: "name", scope: "col" }, "task \\ member"),
    members.map((member) => make("th", { scope: "col", title: `member ${member.number}: episode ${member.episode}, ${(member.bytes / 1e6).toFixed(2)} MB, trained in ${member.seconds.toFixed(1)} s` }, String(member.number))),
    make("th", { scope: "col" }, "now"), make("th", { scope: "col" }, "change"));
  byId("who").replaceChildren(make("table", { class: "who" }, make("thead", {}, head), make("tbody", {}, rows)));
  byId("legend").replaceChildren(...["own", "replayed", "fitted", "pruned"].filter((kind) => kinds.has(kind)).map((kind) =>
    make("span", { class: "legend" }, make("span", { class: `dot ${kind}` }), { own: "trained on it when it was new", replayed: "replayed it later", fitted: "has a head that was fitted to it", pruned: "knows it, but is not asked" }[kind])));
}

// ---- how it grew

function showGrowth() {
  const values = zoo.tasks.flatMap((task) => task.history.map((point) => point.accuracy));
  const low = Math.min(0.9, Math.floor(10 * Math.min(1, ...values)) / 10);
  byId("growth").replaceChildren(...zoo.tasks.map((task) => chart(task, low)));
}

function chart(task, low) {
  const [width, height, left, top, bottom, right] = [180, 96, 34, 8, 16, 8];
  const x = (episode) => left + (width - left - right) * (zoo.episodes > 1 ? (episode - 1) / (zoo.episodes - 1) : 0.5);
  const y = (value) => top + (height - top - bottom) * (1 - (value - low) / (1 - low));
  const points = task.history;
  const steps = points.map((point, place) => `${place ? `H${x(point.episode)}V` : `M${x(point.episode)},`}${y(point.accuracy)}`).join("");
  const words = points.map((point) => `${percent(point.accuracy)} after episode ${point.episode}`).join(", ");
  const lines = [low, (1 + low) / 2, 1].map((value) => make("g", {},
    make("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }),
    make("text", { x: left - 4, y: y(value) + 3, "text-anchor": "end" }, `${Math.round(100 * value)} %`)));
  const ends = zoo.episodes > 1 ? [1, zoo.episodes] : [1];
  return make("figure", { class: "chart" },
    make("figcaption", {}, make("span", {}, task.name), make("b", {}, percent(task.accuracy))),
    make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `accuracy of ${task.name}: ${words}` },
      lines,
      ends.map((episode) => make("text", { x: x(episode), y: height - 4, "text-anchor": "middle" }, String(episode))),
      zoo.episodes > 2 ? make("text", { x: x((1 + zoo.episodes) / 2), y: height - 4, "text-anchor": "middle" }, "episode") : null,
      make("path", { class: "curve", d: points.length ? `${steps}H${x(zoo.episodes)}` : "" }),
      points.map((point, place) => make("circle", { cx: x(point.episode), cy: y(point.accuracy), r: 3.2, class: place === points.length - 1 ? "latest" : undefined },
        make("title", {}, `episode ${point.episode}: ${percent(point.accuracy)}`)))));
}

// ---- teaching

let following = false;

async function teach(event) {
  event.preventDefault();
  const [file] = byId("archive").files;
  const name = byId("name").value.trim();
  byId("start").disabled = true;
  byId("training").replaceChildren(make("p", {}, `Sending ${file.name} …`), make("progress", { "aria-label": "sending" }));
  try {
    await ask(`${url(name)}?skip_broken=${byId("skip").checked}`, { method: "POST", body: file, headers: { "Content-Type": "application/octet-stream" } });
    byId("lesson").reset();
    follow();
  } catch (error) {
    byId("training").replaceChildren(make("p", { class: "wrong" }, error.message));
  } finally {
    byId("start").disabled = false;
  }
}

// Server-sent events, read from a plain request: an EventSource cannot carry the token.
async function follow() {
  if (following) return;
  following = true;
  try {
    const reader = (await ask("/training")).body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      text += value;
      const events = text.split("\n\n");
      text = events.pop();
      for (const event of events) if (event.startsWith("data: ")) showTraining(JSON.parse(event.slice(6)));
    }
  } catch (error) {
    byId("training").replaceChildren(make("p", { class: "wrong" }, error.message || "The connection broke off."));
  } finally {
    following = false;
  }
}

function showTraining(state) {
  const parts = {
    reading: () => [`Reading the images of ${state.task}: ${state.done} of ${state.total}`, true],
    training: () => [`Learning ${state.task}: epoch ${state.epoch} of ${state.epochs}, loss ${state.loss.toFixed(3)}`, true],
    learned: () => [`Learned ${state.task} in ${state.seconds} s. ` + Object.entries(state.accuracy)
      .map(([name, { before, after }]) => `${name}: ${before === null ? "" : `${percent(before)} → `}${percent(after)}`).join("; "), false],
    failed: () => [`${state.task} was not learned: ${state.detail}`, false],
    idle: () => ["", false],
  };
  const [words, moves] = parts[state.state]();
  byId("training").replaceChildren(
    ...(words ? [make("p", { class: state.state === "failed" ? "wrong" : undefined }, words)] : []),
    ...(moves ? [make("progress", { value: state.done, max: state.total, "aria-label": words })] : []));
}

// ---- what happens

byId("task").addEventListener("change", () => choose(byId("task").value));
byId("file").addEventListener("change", () => askAbout(byId("file").files[0]));
byId("lesson").addEventListener("submit", teach);
byId("numbers").addEventListener("submit", (event) => {
  event.preventDefault();
  const row = byId("row").value.split(/[\s,;]+/).filter(Boolean).map(Number);
  question({ body: JSON.stringify({ rows: [row] }), headers: { "Content-Type": "application/json" } });
});
document.addEventListener("dragover", (event) => {
  event.preventDefault();
  byId("drop").classList.add("over");
});
document.addEventListener("dragleave", () => byId("drop").classList.remove("over"));
document.addEventListener("drop", (event) => {
  event.preventDefault();
  byId("drop").classList.remove("over");
  askAbout([...event.dataTransfer.files].find((file) => file.type.startsWith("image/")));
});
document.addEventListener("paste", (event) => askAbout([...event.clipboardData.files].find((file) => file.type.startsWith("image/"))));

// Another program may change the zoo: look now and then, while somebody looks at the page.
async function look() {
  if (document.hidden || zoo === null) return;
  try {
    const health = await askJson("/healthz");
    if (health.generation !== zoo.generation) await enter(load);
    if (health.training && zoo.learns) follow();
  } catch { /* the server is away; the next look may find it */ }
}
setInterval(look, 2000);
begin(load).then(look);
