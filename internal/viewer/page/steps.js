"use strict";
// What an agent did, step by step.
{
  const perPage = 100;
  const speakers = { model: "the model", agent: "the agent says", relay: "the relay" };
  const kinds = { message: "message", reasoning: "reasoning", call: "calls a tool", result: "result of a tool", answer: "answer", error: "error" };
  const word = (words, name) => (Object.hasOwn(words, name) ? words[name] : "unknown");

  function took(s) {
    const parts = [];
    if (s.kind === "error" && s.status) parts.push("status " + s.status);
    if (s.took_ms) parts.push(sb.seconds(s.took_ms));
    if (s.waited_ms) parts.push(sb.seconds(s.waited_ms) + " of them waiting");
    if (s.usage) parts.push(s.usage.input_tokens + " tokens in, " + s.usage.output_tokens + " out" + (s.usage.cached_input_tokens ? ", " + s.usage.cached_input_tokens + " cached" : "") + (s.estimated ? ", estimated" : ""));
    return parts.join(", ");
  }

  function step(s, n, began) {
    const at = (Date.parse(s.at) - began) / 1000;
    const head = [sb.h("span", { class: "number soft" }, n), sb.h("span", { class: "soft" }, at.toFixed(1) + " s"),
      sb.h("b", {}, s.kind === "message" && s.by === "agent" && s.role ? "" : word(speakers, s.by))];
    if (s.kind === "message" && s.role) head.push(sb.h("b", {}, sb.foreign(s.role)));
    head.push(sb.h("span", {}, word(kinds, s.kind)));
    if (s.name) head.push(sb.foreign(s.name));
    if (s.model) head.push(sb.foreign(s.model));
    if (s.reason) head.push(sb.foreign(s.reason));
    if (s.failed) head.push(sb.h("span", { class: "failed" }, "failed, as the agent says"));
    if (s.by === "agent" && (s.kind === "call" || s.kind === "reasoning" || s.role === "assistant")) head.push(sb.h("span", { class: "warn" }, "no answer of its model has it"));
    if (took(s)) head.push(sb.h("span", { class: "soft" }, took(s)));
    if (s.bytes) head.push(sb.h("span", { class: "soft" }, "cut from " + sb.bytes(s.bytes)));
    const kind = (Object.hasOwn(speakers, s.by) ? s.by : "unknown") + " " + (Object.hasOwn(kinds, s.kind) ? s.kind : "unknown");
    return sb.h("li", { class: "step " + kind }, sb.h("p", { class: "head" }, head), s.text ? sb.block(s.text, "step " + n) : null);
  }

  // steps shows one try, a page of it that the address names.
  sb.steps = function (track, page, go) {
    const pages = Math.max(1, Math.ceil(track.steps.length / perPage)), at = Math.min(Math.max(parseInt(page, 10) || 1, 1), pages), first = (at - 1) * perPage;
    const began = track.steps.length ? Date.parse(track.steps[0].at) : 0;
    return [sb.h("p", { class: "soft" }, track.note), sb.pager(at, pages, go),
      sb.h("ol", { class: "steps" }, track.steps.slice(first, first + perPage).map((s, i) => step(s, first + i + 1, began))), sb.pager(at, pages, go)];
  };

  sb.network = (n) => [n.note ? sb.h("p", { class: "note" }, n.note) : null, (n.decisions || []).length === 0 ? sb.h("p", { class: "soft" }, "no request was made") :
    sb.table("network decisions", [
      { name: "target", cell: (d) => sb.foreign(d.target) },
      { name: "decision", cell: (d) => sb.h("span", { class: d.allowed ? "passed" : "failed" }, d.allowed ? "✓ allowed" : "✗ denied") },
      { name: "gate", cell: (d) => sb.foreign(d.gate) }, { name: "method", cell: (d) => sb.foreign(d.method) },
      { name: "reason", cell: (d) => (d.reason ? sb.foreign(d.reason) : null) }, { name: "status", number: true, cell: (d) => d.status || "" },
      { name: "sent", number: true, cell: (d) => sb.bytes(d.sent || 0) }, { name: "received", number: true, cell: (d) => sb.bytes(d.received || 0) },
      { name: "at", number: true, cell: (d) => d.began }], n.decisions)];
}
