"use strict";
// The page of one attempt.
{
  const types = ["image/png", "image/jpeg", "image/gif", "image/webp"];

  function values(text) {
    return sb.h("dl", { class: "facts" }, text.split("\n").filter(Boolean).map((line) => {
      const at = line.indexOf(": ");
      return sb.h("div", {}, sb.h("dt", {}, sb.foreign(at < 0 ? "" : line.slice(0, at))), sb.h("dd", {}, sb.foreign(at < 0 ? line : line.slice(at + 2))));
    }));
  }

  function file(f) {
    if (f.picture && types.includes(f.type)) {
      return sb.h("figure", {}, sb.h("figcaption", {}, sb.foreign(f.path)), sb.h("img", { src: "data:" + f.type + ";base64," + f.picture, alt: "picture " + f.path, class: "picture" }));
    }
    return f.text ? sb.h("div", {}, sb.h("h4", {}, sb.foreign(f.path)), sb.block(f.text, "content of " + f.path, "code")) : null;
  }

  const tree = (files) => [sb.table("changed files", [
    { name: "path", cell: (f) => [sb.foreign(f.path), f.target ? [" → ", sb.foreign(f.target)] : null] }, { name: "what", cell: (f) => f.kind },
    { name: "mode", cell: (f) => f.mode }, { name: "size", number: true, cell: (f) => sb.bytes(f.size) }], files), files.map(file)];

  function content(p) {
    if (p.files) return p.form === "pictures" ? p.files.map(file) : tree(p.files);
    if (!p.text) return null;
    if (p.form === "patch") return sb.diff(p.text);
    if (p.form === "values") return values(p.text);
    return sb.block(p.text, p.title, p.form === "code" ? "code" : "");
  }

  const part = (p) => sb.h("div", { class: "part" }, sb.h("h3", {}, sb.foreign(p.title)), p.note ? sb.h("p", { class: "note" }, sb.foreign(p.note)) : null, content(p));

  // The chapters of an attempt, by how the titles of their parts begin.
  const chapters = [["prompt", "Prompt", ["prompt", "not shown to the agent"]], ["candidate", "Candidate", ["candidate"]], ["agent", "What the agent printed", ["agent"]],
    ["verification", "Verification", ["verifier", "judge", "restricted"]], ["hidden", "Hidden from the agent", ["hidden"]], ["more", "Times, counts and digests", [""]]];

  function chapterOf(p) { return chapters.find(([, , begins]) => begins.some((b) => p.title.startsWith(b)))[0]; }

  function verdict(row, a) {
    return sb.h("section", { id: "verdict", class: "verdict", "aria-labelledby": "verdict-title" }, sb.h("h2", { id: "verdict-title" }, "Verdict"),
      sb.h("p", { class: "words" }, sb.outcome({ outcome: a.outcome, passed: a.passed }), " ", sb.h("span", {}, sb.mixed(a.verdict))), a.message ? sb.block(a.message, "what the verifier said") : null,
      sb.h("p", { class: "soft" }, "row " + row.row + ", attempt " + row.attempt + ", " + row.basis + ", containment ", sb.foreign(row.containment), ", family ", sb.foreign(row.family), ", " + sb.seconds(row.ms)),
      (row.tags || []).length ? sb.h("p", { class: "tags" }, row.tags.map((t) => [sb.foreign(t), " "])) : null);
  }

  sb.views.attempt = function (main, state) {
    const [id, key] = state.path;
    let whole, by = state.params;
    const trackPages = new Map();

    function tracks() {
      return (whole.attempt.tracks || []).map((t, i) => {
        const name = "steps" + (i || ""), box = sb.h("div");
        const draw = () => sb.fill(box, sb.steps(t, by[name], (page) => sb.go("attempt", [id, key], Object.assign({}, by, { [name]: page }))));
        trackPages.set(name, draw);
        draw();
        return sb.h("div", { class: "part" }, sb.h("h3", {}, sb.foreign(t.title)), box);
      });
    }
    function chaptersOf(a) {
      const out = [];
      for (const [name, title] of chapters) {
        const parts = (a.parts || []).filter((p) => chapterOf(p) === name);
        if (name === "candidate" && a.tracks) out.push(["steps", "Steps", tracks()]);
        if (name === "candidate" && whole.network) out.push(["network", "Network", sb.network(whole.network)]);
        if (parts.length) out.push([name, title, parts.map(part)]);
      }
      return out;
    }
    async function load() {
      const [answer, run] = await Promise.all([sb.source.attempt(id, key), sb.source.run(id)]);
      whole = answer;
      const parts = chaptersOf(whole.attempt), step = (name, to) => (to ? sb.h("a", { href: sb.address("attempt", [id, to]), class: "button", rel: name === "previous" ? "prev" : "next" }, name) : sb.h("span", { class: "button off" }, name));
      sb.crumbs([[sb.foreign(run.summary.path), sb.address("run", [id])], [sb.foreign(whole.row.task), null]]);
      sb.title(whole.row.task);
      const jump = (name) => (e) => { e.preventDefault(); if (by.at === name) scrollTo(name); else sb.go("attempt", [id, key], Object.assign({}, by, { at: name })); };
      sb.fill(main, sb.h("h1", {}, sb.foreign(whole.row.task)), sb.h("p", { class: "line" }, sb.state(run.summary.state), " ", sb.h("span", { class: "soft" }, "is what can be said of the run")),
        (run.view.banners || []).map((b) => sb.h("p", { class: "banner", role: "alert" }, sb.mixed(b))),
        sb.h("nav", { class: "steplinks", "aria-label": "attempts" }, step("previous", whole.previous), step("next", whole.next)),
        sb.h("div", { class: "whole" }, sb.h("nav", { class: "outline", "aria-label": "parts of this attempt" }, sb.h("ul", {}, [["verdict", "Verdict"]].concat(parts).map(([name, title]) =>
          sb.h("li", {}, sb.h("a", { href: sb.address("attempt", [id, key], Object.assign({}, by, { at: name })), on: { click: jump(name) } }, title))))),
        sb.h("div", {}, verdict(whole.row, whole.attempt), parts.map(([name, title, body]) => sb.h("section", { id: name, "aria-labelledby": name + "-title" }, sb.h("h2", { id: name + "-title" }, title), body)))));
      if (by.at) scrollTo(by.at);
    }
    function scrollTo(name) {
      const e = Array.from(main.querySelectorAll("section")).find((s) => s.id === name);
      if (e) { e.setAttribute("tabindex", "-1"); e.focus({ preventScroll: true }); e.scrollIntoView(); }
    }
    return { ready: load(), update: (params) => {
      const was = by;
      by = params;
      for (const [name, draw] of trackPages) if (was[name] !== by[name]) draw();
      if (by.at && by.at !== was.at) scrollTo(by.at);
    } };
  };
}
