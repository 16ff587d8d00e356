// Chooses between drawings, shows what a point says, and turns light into dark. Without it the page still reads.
"use strict";

const root = document.documentElement;
const tip = document.createElement("div");
tip.className = "tip";
tip.hidden = true;
document.body.append(tip);

document.querySelector(".theme").addEventListener("click", () => {
  const dark = (root.style.colorScheme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  root.style.colorScheme = dark ? "light" : "dark";
});

for (const control of document.querySelectorAll(".choice select, .choice input")) {
  control.addEventListener("input", () => {
    const figure = control.closest("figure");
    figure.querySelectorAll(".frame").forEach((frame, place) => { frame.hidden = place !== Number(control.value); });
    const output = figure.querySelector("output");
    if (output) output.textContent = control.dataset.names.split("|")[Number(control.value)];
  });
}

/** Moves the words of a <title> to ours, which come at once and on touch too. */
function words(mark) {
  const title = mark.querySelector?.(":scope > title");
  if (title && mark.closest("svg") !== mark) { mark.dataset.tip = title.textContent; title.remove(); }
  return mark.dataset?.tip;
}

for (const event of ["pointerover", "pointerdown"]) document.addEventListener(event, ({ target, clientX, clientY }) => {
  const said = words(target);
  tip.hidden = !said;
  if (!said) return;
  tip.textContent = said;
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(clientX + 12, innerWidth - width - 4))}px`;
  tip.style.top = `${clientY - height - 12 > 4 ? clientY - height - 12 : clientY + 16}px`;
});

root.dataset.ready = "yes";
