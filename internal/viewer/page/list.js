"use strict";
// The page of all runs.
{
  // The words for what can be said of a run. No text of a run is among them.
  const states = {
    checking: ["…", "being checked"], verified: ["✓", "verified"], unverified: ["✗", "not verified"],
    unfinished: ["◌", "not finished"], running: ["▶", "running"], unreadable: ["✗", "cannot be read"],
  };

  sb.state = function (state) {
    const known = Object.hasOwn(states, state) ? state : "unreadable";
    return sb.h("span", { class: "state " + known }, sb.h("span", { "aria-hidden": "true" }, states[known][0] + " "), states[known][1]);
  };

  // scores shows what was scored, one line for each basis.
  sb.scores = (run) => (run.totals || []).map((t) => sb.h("div", { class: "score" }, sb.h("b", {}, sb.percent(t.rate)), " ",
    run.totals.length > 1 || t.basis === "judged" ? sb.h("small", {}, t.basis === "judged" ? "judged" : "computed") : null, sb.bar(t.rate, t.interval)));

  const when = (r) => (r.started ? r.started.replace("T", " ").replace(/(:\d\d)(\.\d+)?Z$/, "$1") : "");
  const orders = {
    path: (r) => r.path, pack: (r) => r.pack || "", agent: (r) => (r.agent || "") + " " + (r.model || ""),
    rate: (r) => (r.totals && r.totals[0] ? r.totals[0].rate : -1), state: (r) => r.state, started: (r) => r.started || "",
  };

  function chosen(runs, by) {
    const words = sb.wordsOf(by.q);
    const out = runs.filter((r) => (!by.state || r.state === by.state) && (!by.pack || r.pack === by.pack) && (!by.agent || r.agent === by.agent) &&
      words.every((w) => [r.path, r.run_id, r.pack, r.agent, r.model, states[r.state][1]].join("\n").toLowerCase().includes(w)));
    const sort = by.sort || "path", down = sort.startsWith("-"), of = orders[sort.replace(/^-/, "")] || orders.path;
    return out.sort((a, b) => { const x = of(a), y = of(b), c = x < y ? -1 : x > y ? 1 : 0; return down ? -c : c; });
  }

  function facetsOf(runs, of) {
    const counts = new Map();
    for (const r of runs) if (of(r)) counts.set(of(r), (counts.get(of(r)) || 0) + 1);
    return Array.from(counts, ([value, attempts]) => ({ value: value, attempts: attempts })).sort((a, b) => (a.value < b.value ? -1 : 1));
  }

  // A server compares any runs, and a folder has some pairs of them.
  const can = (list, id) => sb.source.compare && (sb.source.live || (list.compared || []).some((p) => p.includes(id)));
  const ready = (list, picked) => picked.length > 1 && (sb.source.live || (picked.length === 2 && (list.compared || []).some((p) => picked.every((id) => p.includes(id)))));

  const columns = (list, picked, pick) => [
    { name: "run", sort: "path", cell: (r) => [sb.h("a", { href: sb.address("run", [r.id]) }, sb.foreign(r.path)), r.run_id && r.run_id !== r.path ? sb.h("div", { class: "soft" }, sb.foreign(r.run_id)) : null] },
    { name: "state", sort: "state", cell: (r) => sb.state(r.state) },
    { name: "pack", sort: "pack", cell: (r) => r.pack ? [sb.foreign(r.pack), sb.h("span", { class: "soft" }, " version " + r.version)] : null },
    { name: "agent", sort: "agent", cell: (r) => [r.agent ? sb.foreign(r.agent) : null, r.model ? sb.h("div", { class: "soft" }, sb.foreign(r.model)) : null] },
    { name: "rate, 95 % interval", sort: "rate", cell: (r) => sb.scores(r) },
    { name: "attempts", number: true, cell: (r) => r.recorded + " / " + r.planned },
    { name: "began (UTC)", sort: "started", cell: (r) => when(r) },
    list.runs.some((r) => can(list, r.id)) ? { name: "compare", cell: (r) => {
      if (!can(list, r.id)) return null;
      const box = sb.h("input", { type: "checkbox", "aria-label": "compare " + r.path, "data-focus": "compare " + r.id, on: { change: () => pick(r.id, box.checked) } });
      box.checked = picked.includes(r.id);
      return box;
    } } : null,
  ].filter(Boolean);

  sb.views.list = function (main, state) {
    let list = { runs: [] }, by = state.params;
    const controls = sb.h("form", { class: "filters", on: { submit: (e) => e.preventDefault() } });
    const found = sb.h("p", { class: "found", "aria-live": "polite" }), results = sb.h("div"), compared = sb.h("p");
    const picked = () => (by.runs ? by.runs.split("\n") : []);
    const pick = (id, on) => go({ runs: picked().filter((p) => p !== id).concat(on ? [id] : []).join("\n") });
    const go = (change) => sb.go("list", [], Object.assign({}, by, change));
    sb.crumbs([]);
    sb.title("Runs");
    sb.fill(main, sb.h("h1", {}, "Runs"), sb.h("p", { id: "dir", class: "soft" }), controls, found, compared, results);

    function draw() {
      const runs = chosen(list.runs, by);
      found.textContent = runs.length + " of " + sb.plural(list.runs.length, "run") + (list.more ? "; there are more than are listed" : "");
      sb.fill(compared, ready(list, picked()) ? sb.h("a", { class: "button", href: sb.address("compare", [], { runs: picked().join("\n") }) }, "compare " + sb.plural(picked().length, "run")) :
        list.runs.some((r) => can(list, r.id)) ? sb.h("span", { class: "soft" }, sb.source.live ? "Choose two or more runs to compare them." : "Choose two runs of a pack to compare them.") : null);
      sb.redraw(results, () => runs.length ? sb.table("runs", columns(list, picked(), pick), runs, by.sort || "path", (sort) => go({ sort: sort })) : null);
    }
    function drawControls() {
      sb.fill(controls, sb.search("search", by.q, (q) => go({ q: q })),
        sb.choice("state", facetsOf(list.runs, (r) => r.state), by.state, (v) => go({ state: v })),
        sb.choice("pack", facetsOf(list.runs, (r) => r.pack), by.pack, (v) => go({ pack: v })),
        sb.choice("agent", facetsOf(list.runs, (r) => r.agent), by.agent, (v) => go({ agent: v })));
    }
    async function load(first) {
      list = await sb.source.list();
      sb.fill(document.getElementById("dir"), list.dir ? ["below ", sb.foreign(list.dir)] : null);
      if (first || !controls.contains(document.activeElement)) drawControls();
      draw();
    }
    if (sb.source.live) sb.onLeave(sb.source.news(() => load(false)));
    return { ready: load(true), update: (params) => { by = params; draw(); } };
  };
}
