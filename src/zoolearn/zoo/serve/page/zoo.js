// The page of a zoo: a place to ask and to teach it.

let zoo = null; // what GET /tasks says
let known = 0; // how many tasks there are, whatever is searched for
let members = [];
let chosenTask = null;
const UNKNOWN = ""; // the zoo is to find out the task by itself

const takesImages = () => zoo.shape === null || zoo.shape.length === 3;
const takesTexts = () => zoo.dtype === "text";

// A thousand tasks at most: the newest, or those with these words in their names.
const listed = (wanted) => `/tasks?count=${showsAll || wanted ? 1000 : 100}&search=${encodeURIComponent(wanted)}`;

async function load() {
  const wanted = byId("filter").value.trim();
  const [tasks, nets] = await Promise.all([askJson(isReport ? "/tasks" : listed(wanted)), askJson("/members")]);
  if (wanted !== byId("filter").value.trim()) return; // somebody goes on typing
  zoo = tasks;
  if (!wanted || isReport) known = zoo.total ?? zoo.tasks.length;
  members = nets.members;
  if (chosenTask !== UNKNOWN && !zoo.tasks.some((task) => task.name === chosenTask)) chosenTask = zoo.tasks.at(-1)?.name ?? null;
  document.title = `${zoo.zoo} · zoo`;
  byId("title").textContent = zoo.zoo;
  byId("summary").textContent = [plural(known, "task"), plural(nets.total ?? members.length, "member"), inputs()].filter(Boolean).join(" · ");
  const isEmpty = known === 0;
  byId("empty").hidden = !isEmpty;
  for (const id of ["known", "grown", "picture"]) byId(id).hidden = isEmpty;
  byId("ask").hidden = isEmpty || isReport;
  byId("teach").hidden = !zoo.learns || !takesImages();
  byId("how").textContent = HOW.filter(([taken]) => taken()).map(([, words]) => `zoo learn ${zoo.zoo} ${words}`).join("\n");
  byId("how-more").textContent = zoo.learns
    ? "Or send an archive of images below. This page shows the task as soon as it is learned."
    : "Run this beside the server: the page shows the task as soon as it is learned. With `zoo serve --learn`, images can be sent from here.";
  byId("calibrated").textContent = zoo.features ? "" : ", as these rows have calibrated it";
  byId("member").textContent = zoo.features
    ? "A member is one linear head, made of the statistics of a task’s rows; the newest of a task answers."
    : "A member is a small net that never changes again; a task is answered by the vote of those that know it.";
  showQuestion();
  showTasks();
}

// How it is taught what it takes; a zoo that has learned nothing may take anything.
const HOW = [
  [takesImages, "birds FOLDER_OF_IMAGES"],
  [() => !zoo.features && (zoo.shape === null || zoo.shape.length === 1), "wine wine.csv --label kind"],
  [takesTexts, "intents tickets.csv --text body --label intent"],
];

function inputs() {
  if (zoo.shape === null) return "";
  if (takesTexts()) return `texts, on features of ${zoo.features}`;
  if (zoo.shape.length === 1) return `rows of ${plural(zoo.shape[0], "number")}`;
  const [channels, height, width] = zoo.shape;
  return `${channels === 1 ? "grey" : "colour"} images, ${width} × ${height}${zoo.features ? `, on features of ${zoo.features}` : ""}`;
}

// ---- asking

function showQuestion() {
  const choices = zoo.tasks.map((task) => [task.name, task.name]);
  if (zoo.tasks.length > 1 && zoo.tasks.every((task) => task.rows_kept)) choices.push([UNKNOWN, "I do not know: find it out"]);
  else if (chosenTask === UNKNOWN) chosenTask = zoo.tasks.at(-1)?.name ?? null;
  byId("task").replaceChildren(...choices.map(([value, words]) => make("option", { value, selected: value === chosenTask }, words)));
  byId("names").replaceChildren(...zoo.tasks.map((task) => make("option", { value: task.name })));
  byId("task").disabled = zoo.tasks.length === 0;
  byId("drop").hidden = !takesImages() || zoo.tasks.length === 0;
  byId("numbers").hidden = takesImages();
  if (!takesImages()) showColumns();
  byId("task-note").hidden = chosenTask !== UNKNOWN;
  byId("sureness").hidden = chosenTask === UNKNOWN;
  byId("drop-note").textContent = zoo.shape?.length === 3 ? `Any size; the largest part of its middle is brought to ${zoo.shape[2]} × ${zoo.shape[1]} pixels.` : "";
  if (!byId("answer").childElementCount) hint();
}

function hint() {
  byId("answer").replaceChildren(make("p", { class: "soft empty" }, zoo.features ? "The answer comes here." : "The answer, and what each member says, comes here."));
}

// One field for each column that the zoo knows by name; else one for the whole row, or the text.
function showColumns() {
  if (byId("columns").dataset.names === JSON.stringify(zoo.columns)) return;
  byId("columns").dataset.names = JSON.stringify(zoo.columns);
  const named = zoo.columns.length > 0 && !takesTexts();
  byId("columns").classList.toggle("columns", named);
  byId("columns").replaceChildren(...(named
    ? zoo.columns.map((name) => make("label", { class: "field" }, name, make("input", { name, required: true, inputmode: "decimal", autocomplete: "off", spellcheck: "false" })))
    : [make("label", { class: "field", for: "row" }, takesTexts() ? `A text${zoo.columns.map((name) => ` (${name})`).join("")}` : `One row of ${plural(zoo.shape[0], "number")}, separated by commas or spaces`),
      make("textarea", { id: "row", rows: 4, spellcheck: takesTexts() ? "true" : "false", required: true })]));
}

// What was typed, as the body of a question.
function typed() {
  return takesTexts() ? { texts: [byId("row").value] } : { rows: [typedRow()] };
}

function typedRow() {
  if (!zoo.columns.length) return byId("row").value.split(/[\s,;]+/).filter(Boolean).map(Number);
  return [...byId("columns").querySelectorAll("input")].map((input) => {
    const value = Number(input.value.trim().replace(",", "."));
    if (Number.isNaN(value)) throw new Error(`${input.name}: ${input.value} is not a number.`);
    return value;
  });
}

function choose(name) {
  chosenTask = name;
  byId("task").value = name;
  byId("task-note").hidden = name !== UNKNOWN;
  byId("sureness").hidden = name === UNKNOWN;
  for (const row of document.querySelectorAll("tr[data-task]")) row.classList.toggle("chosen", row.dataset.task === name);
  showDetail();
  if (lastQuestion) question(lastQuestion);
}

let lastQuestion = null;
let asked = 0;

async function question(options) {
  lastQuestion = options;
  const number = (asked += 1);
  try {
    const route = chosenTask === UNKNOWN ? "/recognise" : `${url(chosenTask)}/predict?votes=true&sure=${byId("sure").value}`;
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
    make("p", { class: "soft" }, sure ? `${percent(found.probability)}, if the task is right` : found.strange ? "It is like nothing that the zoo has stored of any task." : "No task is likely enough."),
    make("h3", {}, "The chance of each task"),
    ...bars(found.chances, found.task),
  );
}

function showAnswer(prediction) {
  const votes = prediction.votes;
  const likeliest = Object.entries(prediction.probabilities).reduce((best, one) => (one[1] > best[1] ? one : best))[0];
  const agree = votes.filter((vote) => vote.class === likeliest).length;
  const none = {
    "not sure": `Not sure enough: ${likeliest} is likeliest, with a chance of ${percent(prediction.probability)}.`,
    strange: "It is like nothing that the zoo has stored of this task.",
  }[prediction.none_of_these];
  byId("answer").replaceChildren(
    make("p", { class: "soft" }, `${chosenTask}:`),
    make("p", { class: "verdict" }, none ? "none of these" : prediction.class),
    make("p", { class: "soft" }, none ?? `${percent(prediction.probability)}${zoo.features ? "" : `, ${agree} of ${plural(votes.length, "member")} agree`}`),
    ...worth(zoo.tasks.find((task) => task.name === chosenTask)),
    make("h3", {}, "The zoo"),
    ...bars(prediction.probabilities, likeliest),
    ...(zoo.features ? [] : each(votes, likeliest)),
  );
}

function each(votes, likeliest) {
  return [
    make("h3", {}, "Each member’s vote"),
    make("dl", { class: "bars" }, votes.flatMap((vote) => [
      make("dt", {}, `member ${vote.member}`, vote.weight === 1 ? "" : make("small", {}, ` weight ${vote.weight.toFixed(2)}`)),
      make("dd", { class: vote.class === likeliest ? "" : "other" }, bar(vote.probability),
        make("span", { class: "said" }, `${vote.class} ${percent(vote.probability)}`)),
    ])),
  ];
}

// What the probability of an answer is worth.
function worth(task) {
  if (!task) return [];
  const words = `Of ${plural(task.rows_held_out, "held-out row")}, ${percent(task.accuracy)} were answered rightly (${range(task)}), with ${percent(task.confidence)} confidence on average.`;
  return [make("p", { class: "soft" }, words), ...task.notes.map((note) => make("p", { class: "wrong" }, `Its answers are ${note}.`))];
}

// ---- teaching

let following = false;

function teach(event) {
  event.preventDefault();
  send(byId("archive").files[0], byId("name").value.trim(), []);
}

async function send(file, name, newClasses) {
  byId("start").disabled = true;
  byId("training").replaceChildren(make("p", {}, `Sending ${file.name} …`), make("progress", { "aria-label": "sending" }));
  const options = new URLSearchParams(newClasses.map((other) => ["new_class", other]));
  options.append("skip_broken", byId("skip").checked);
  options.append("skip_known", byId("skip-known").checked);
  if (byId("careful").checked) options.append("unless_worse", "0.01");
  try {
    await ask(`${url(name)}?${options}`, { method: "POST", body: file, headers: { "Content-Type": "application/octet-stream" } });
    byId("lesson").reset();
    follow();
  } catch (error) {
    byId("training").replaceChildren(make("p", { class: "wrong" }, error.message));
    if (error.newClasses) askIfMeant(file, name, [...newClasses, ...error.newClasses]);
  } finally {
    byId("start").disabled = false;
  }
}

// A class that a task does not have yet may be a typo: it is learned only if somebody says so.
function askIfMeant(file, name, newClasses) {
  const yes = make("button", { type: "button", id: "meant", class: "main" }, `Learn ${newClasses.join(", ")} as new`);
  yes.addEventListener("click", () => send(file, name, newClasses));
  byId("training").append(yes);
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

// Each task’s accuracy before and after an episode, and whether the held-out rows can show a difference.
const DIFFERENCE = { none: "no difference", "cannot be seen": "no difference can be seen" };
function brought(state) {
  return Object.entries(state.accuracy).map(([name, share]) => {
    const before = share.change === null ? "" : `${percent(share.before)} → `;
    const seen = share.change === null ? "" : `, ${DIFFERENCE[share.change.difference] ?? share.change.difference}`;
    return `${name}: ${before}${percent(share.after)} (${range(share)})${seen}${share.grown ? grew(share.grown) : ""}`;
  }).join("; ");
}

// Of a task that grew: rows held out before and new ones, old classes among themselves and beside the new ones, and each new one.
function grew({ change, new_rows: rows, earlier_classes: earlier, new_classes: added }) {
  const fresh = rows ? `, on new rows ${percent(rows.accuracy)}` : "";
  const difference = `${DIFFERENCE[change.difference] ?? change.difference}${fresh}`;
  const names = Object.entries(added);
  if (!names.length) return `, on the rows held out before: ${difference}`;
  const shares = names.map(([name, share]) => `new class ${name} ${share ? percent(share.accuracy) : "not measured"}`);
  return `, its earlier classes among themselves: ${difference}, beside the new ${percent(earlier.accuracy)}, ${shares.join(", ")}`;
}

function showTraining(state) {
  const parts = {
    reading: () => [`Reading the images of ${state.task}: ${state.done} of ${state.total}`, true],
    training: () => [`Learning ${state.task}: epoch ${state.epoch} of ${state.epochs}, loss ${state.loss.toFixed(3)}`, true],
    learned: () => [`Learned ${state.task} in ${state.seconds} s. ${brought(state)}`, false],
    "taken back": () => [`${state.task} was taken back, since ${state.worse.join(", ")} got worse: the zoo is as it was. ${brought(state)}`, false],
    failed: () => [`${state.task} was not learned: ${state.detail}`, false],
    idle: () => ["", false],
  };
  const [words, moves] = parts[state.state]();
  byId("training").replaceChildren(
    ...(words ? [make("p", { class: ["failed", "taken back"].includes(state.state) ? "wrong" : undefined }, words)] : []),
    ...(moves ? [make("progress", { value: state.done, max: state.total, "aria-label": words })] : []));
}

// ---- what happens

byId("task").addEventListener("change", () => choose(byId("task").value));
byId("file").addEventListener("change", () => askAbout(byId("file").files[0]));
byId("lesson").addEventListener("submit", teach);
byId("numbers").addEventListener("submit", (event) => {
  event.preventDefault();
  try {
    question({ body: JSON.stringify(typed()), headers: { "Content-Type": "application/json" } });
  } catch (error) {
    byId("answer").replaceChildren(make("p", { class: "wrong" }, error.message));
  }
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
  if (document.hidden || zoo === null || isReport) return;
  try {
    const health = await askJson("/healthz");
    if (health.generation !== zoo.generation) await enter(load);
    if (health.training && zoo.learns) follow();
  } catch { /* the server is away; the next look may find it */ }
}
byId("sure").addEventListener("change", () => { if (lastQuestion) question(lastQuestion); });
const find = isReport ? showTasks : load;
byId("filter").addEventListener("input", () => find());
byId("all").addEventListener("click", () => {
  showsAll = !showsAll;
  find();
});
if (isReport) document.querySelector("nav .button").hidden = true;
setInterval(look, 2000);
begin(load).then(look);
