"use strict";
// What both pages need: elements, the theme, and requests that carry the token.

const byId = (id) => document.getElementById(id);
const root = document.documentElement;
const isReport = typeof SNAPSHOT !== "undefined"; // a page in a file: what a server would tell is in it

// An element; what is not an element among its children becomes text, never markup.
function make(tag, attributes = {}, ...children) {
  const svg = ["svg", "path", "circle", "line", "rect", "text", "title", "g"].includes(tag);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

const darkness = matchMedia("(prefers-color-scheme: dark)");
function showTheme(theme) {
  root.dataset.theme = theme;
  byId("theme").textContent = theme === "dark" ? "Light" : "Dark";
}
const themeNow = () => sessionStorage.getItem("theme") || (darkness.matches ? "dark" : "light");
showTheme(themeNow());
darkness.addEventListener("change", () => showTheme(themeNow()));
byId("theme").addEventListener("click", () => {
  sessionStorage.setItem("theme", root.dataset.theme === "dark" ? "light" : "dark");
  showTheme(themeNow());
});

class Refused extends Error {
  constructor(status, detail, newClasses) {
    super(detail);
    this.status = status;
    this.newClasses = newClasses; // that a lesson must announce
  }
}

// A request to our own server; a refusal becomes an error with the server's words.
async function ask(path, options = {}) {
  const token = sessionStorage.getItem("token");
  const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  let answer;
  try {
    answer = await fetch(path, { ...options, headers });
  } catch {
    throw new Refused(0, "The server does not answer.");
  }
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => ({}));
  throw new Refused(answer.status, body.detail || `The server answers ${answer.status}.`, body.new_classes);
}

const askJson = async (path, options) => (isReport ? SNAPSHOT[path] : (await ask(path, options)).json());

// Does the work of the page; where the token is missing or wrong, asks for it first.
async function enter(work) {
  try {
    await work();
    byId("gate").hidden = true;
    byId("main").hidden = false;
  } catch (error) {
    if (error.status !== 401) throw error;
    byId("gate-note").textContent = sessionStorage.getItem("token") ? "That is not its token." : "";
    sessionStorage.removeItem("token");
    byId("main").hidden = true;
    byId("gate").hidden = false;
    byId("token").focus();
  }
}

function begin(work) {
  byId("gate").addEventListener("submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem("token", byId("token").value.trim());
    enter(work);
  });
  return enter(work).finally(() => { root.dataset.ready = ""; });
}
