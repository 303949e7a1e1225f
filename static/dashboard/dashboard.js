// What htmx does not: keep the board fresh while it is looked at, and follow the opened job's events.
"use strict";

const BOARD_EVERY_MS = 1500;
const TERMINAL = ["succeeded", "failed", "cancelled", "expired"];

const byId = (id) => document.getElementById(id);

// --- the board, and how the opened job stands -----------------------------------------------------------------------------------------------

// Both ask anew at the event "board".
const live = () => [byId("board"), byId("job-facts")].filter(Boolean);

function refresh() {
  if (!document.hidden && !isSelecting()) htmx.trigger(document.body, "board");
}

function isSelecting() {
  const selection = window.getSelection();
  return !selection.isCollapsed && live().some((part) => part.contains(selection.anchorNode));
}

// What is on its way was read before the change that is asked for now.
document.addEventListener("htmx:beforeRequest", (event) => {
  if (event.detail.requestConfig.verb === "post") live().forEach((part) => htmx.trigger(part, "htmx:abort"));
});

setInterval(refresh, BOARD_EVERY_MS);
document.addEventListener("visibilitychange", refresh);

// A button that is gone leaves the focus nowhere: to the job that it was of.
document.addEventListener("htmx:afterSettle", (event) => {
  const { verb, elt } = event.detail.requestConfig || {};
  if (verb !== "post" || document.activeElement !== document.body) return;
  (byId(elt.id.replace("cancel-", "open-")) || byId("answer"))?.focus();
});

// --- what goes wrong -----------------------------------------------------------------------------------------

function notice(text) {
  const box = byId("notice");
  box.replaceChildren();
  if (!text) return;
  const line = document.createElement("p");
  line.className = "alert";
  line.textContent = text;
  box.append(line);
}

const OUT_OF_DATE = "This page is out of date: load it again.";
const NO_ANSWER = "The server does not answer. Trying again …";
const NOT_SENT = "The server does not answer. Once it does, look whether this arrived, and if not send it again.";
let isAway = false;
let isLost = false; // Something that is not sent again by itself: told until the next such, or a click.

function tellAway(verb) {
  isAway = true;
  isLost ||= verb === "post";
  notice(isLost ? NOT_SENT : NO_ANSWER);
}

function tellFound() {
  if (isLost) notice(isAway ? NO_ANSWER : "");
  isLost = false;
}

document.addEventListener("click", tellFound);
document.addEventListener("htmx:beforeRequest", (event) => {
  if (event.detail.requestConfig.verb === "post") tellFound();
});
document.addEventListener("htmx:sendError", (event) => tellAway(event.detail.requestConfig.verb));
document.addEventListener("htmx:beforeSwap", (event) => {
  const { xhr, requestConfig } = event.detail;
  const isPost = requestConfig.verb === "post";
  if (xhr.status < 400) {
    if (isPost || (isAway && !isLost)) notice("");
    isAway = false;
  } else if (!xhr.getResponseHeader("HX-Retarget")) {
    // Not from one of our views: a proxy, or Django itself. Its page has no place in the middle of ours.
    event.detail.shouldSwap = false;
    if (xhr.status >= 500) tellAway(requestConfig.verb);
    else notice(OUT_OF_DATE);
  } else if (xhr.status >= 500 && !isPost) {
    // What the board cannot show now it asks for again, and then there is nothing more to tell.
    isAway = true;
    if (isLost) event.detail.shouldSwap = false;
  }
});

// --- the opened job ------------------------------------------------------------------------------------------

let source = null;

function follow(panel) {
  if (source) source.close();
  source = null;
  if (!panel.dataset.stream) return;
  const answer = byId("answer");
  let claim = null;
  source = new EventSource(panel.dataset.stream);
  source.addEventListener("chunk", (event) => {
    const { claim_id, chunks } = JSON.parse(event.data);
    if (claim_id !== claim) answer.textContent = ""; // two attempts never mix
    claim = claim_id;
    answer.append(chunks.map(textOf).join("")); // a text node: markup in an answer stays text
    answer.scrollTop = answer.scrollHeight;
  });
  source.addEventListener("gap", () => answer.append("\n[…]\n"));
  source.addEventListener("state", (event) => {
    const { state } = JSON.parse(event.data);
    const chip = byId("job-status");
    chip.textContent = state;
    chip.className = `chip ${state}`;
    if (TERMINAL.includes(state)) ended(panel, answer, state);
    else refresh();
  });
  source.addEventListener("error", (event) => {
    if (event.target.readyState === EventSource.CLOSED) notice(OUT_OF_DATE);
  });
}

function textOf(chunk) {
  const choice = (chunk.choices || [])[0] || {};
  return (choice.delta && choice.delta.content) || choice.text || "";
}

function ended(panel, answer, state) {
  source.close();
  source = null;
  // The row has the last word. What was streamed of a job without an answer is nowhere else: it stays on the page.
  const part = answer.textContent && state !== "succeeded" ? "#job-facts" : "#job-panel";
  answer.removeAttribute("aria-busy");
  byId("cancel-opened")?.remove();
  htmx.ajax("GET", panel.dataset.address, { target: part, select: part, swap: "outerHTML" });
  refresh();
}

htmx.onLoad((loaded) => {
  const panel = loaded.id === "job-panel" ? loaded : loaded.querySelector("#job-panel");
  if (panel) follow(panel);
});

// --- the form ------------------------------------------------------------------------------------------------

document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.id === "id_prompt") {
    event.target.form.requestSubmit();
  }
});
