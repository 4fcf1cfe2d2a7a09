"use strict";
// The page of one run.
{
  const tallies = [
    { name: "tasks", number: true, cell: (r) => r.tasks }, { name: "attempts", number: true, cell: (r) => r.attempts },
    { name: "passed", number: true, cell: (r) => r.passed }, { name: "failed", number: true, cell: (r) => r.failed },
    { name: "other", number: true, cell: (r) => r.other }, { name: "rate", number: true, cell: (r) => r.rate },
    { name: "95 % interval", cell: (r) => [sb.h("span", { class: "soft nowrap" }, r.range), sb.bar(r.pass_rate, r.interval_95)] },
  ];

  function section(title, id, ...children) {
    return sb.h("section", { id: id, "aria-labelledby": id + "-title" }, sb.h("h2", { id: id + "-title" }, title), children);
  }

  function total(t) {
    const counts = [["planned attempts", t.attempts], ["passed", t.passed], ["failed", t.failed], ["pending", t.pending], ["infrastructure errors", t.infrastructure], ["without a record", t.missing]];
    return section(t.title, t.id, sb.h("p", { class: "big" }, sb.h("span", { class: "rate" }, t.rate), " ", sb.h("span", {}, "passed; 95 % interval " + t.range + " over " + sb.plural(t.tasks, "task"))),
      sb.bar(t.pass_rate, t.interval_95, "wide"), sb.h("dl", { class: "counts" }, counts.map(([name, n]) => sb.h("div", {}, sb.h("dt", {}, name), sb.h("dd", {}, n)))),
      t.note ? sb.h("p", { class: "note" }, t.note) : null,
      sb.h("p", { class: "note" }, "The denominator is what was planned: pending attempts, infrastructure errors and attempts without a record count as not passed. Intervals are Wilson's, over tasks."));
  }

  const more = (n) => (n ? sb.h("p", { class: "note" }, "and " + n + " more") : null);
  let sections = 0;

  function groups(g) {
    return section(g.title, "groups-" + ++sections, g.note ? sb.h("p", { class: "note" }, g.note) : null,
      sb.table(g.title, [{ name: g.column, cell: (r) => sb.foreign(r.name) }].concat(tallies), g.rows), more(g.more));
  }

  function counts(c) {
    return section(c.title, "counts-" + ++sections, sb.table(c.title, [
      { name: "name", cell: (r) => sb.foreign(r.name) }, { name: "attempts", number: true, cell: (r) => r.attempts },
      { name: "meaning", cell: (r) => (r.words ? sb.h("span", { class: "soft" }, r.words) : null) }], c.rows), more(c.more));
  }

  function tries(p) {
    return section(p.title, "tries-" + ++sections, sb.table(p.title, [{ name: "k", cell: (r) => r.k },
      { name: "at least one of k passes (pass@k)", number: true, cell: (r) => r.any }, { name: "all of k pass (pass^k)", number: true, cell: (r) => r.all }], p.rows));
  }

  function measures(m) {
    return section(m.title, "measures-" + ++sections, sb.table(m.title, [{ name: "measure", cell: (r) => sb.foreign(r.name) },
      { name: "mean", number: true, cell: (r) => r.value }, { name: "of", cell: (r) => r.of }, { name: "attempts", number: true, cell: (r) => r.attempts }], m.rows),
      sb.h("p", { class: "note" }, "How good candidates are, beside the verdict."));
  }

  function usage(u) {
    return section("Usage", "usage", sb.h("dl", { class: "facts" }, fact("requests", u.requests), fact("tokens", u.tokens), u.cost ? fact("cost", u.cost) : null),
      (u.notes || []).map((n) => sb.h("p", { class: "note" }, n)), sb.h("p", { class: "note" }, "As the records count it. What stopped before it had a record is not in it."));
  }

  const fact = (name, value) => sb.h("div", {}, sb.h("dt", {}, name), sb.h("dd", {}, value));

  // rates are the conditions on the rates of a run that a number of percent makes.
  function rates(totals, below) {
    const share = Number(below) / 100;
    if (!(share > 0 && share <= 1)) return [];
    return totals.filter((t) => t.attempts > 0).map((t) => ({ condition: (t.id === "judged" ? "judged-rate<" : "rate<") + Number(below) + "%",
      met: t.passed / t.attempts < share, why: "the rate is " + t.rate + ", " + t.passed + " of " + t.attempts }));
  }

  // gates has the conditions that a pipeline may have, with one on the rate that the
  // address names; changed is told of another one. Its field stays when the page is drawn
  // anew, with what is being typed. A field that leaves the page may not say that it
  // changed, so it is asked when the focus leaves it as well.
  function gates(changed) {
    let named = "";
    const tell = () => { if (below.value !== named) changed(named = below.value); };
    const below = sb.h("input", { type: "number", min: "0", max: "100", step: "any", "data-focus": "gate", on: { change: tell, blur: tell } }), conditions = sb.h("div");
    return {
      element: section("Gates", "gates", sb.h("p", { class: "note" }, "What a pipeline would say of these figures (run --fail-on)."), conditions,
        sb.h("p", {}, sb.h("label", {}, "rate below ", below, " %"))),
      name: (gate) => { below.value = gate || ""; named = below.value; },
      draw: (view, gate) => sb.fill(conditions, sb.table("gates", [{ name: "condition", cell: (g) => sb.h("code", {}, g.condition) },
        { name: "", cell: (g) => sb.h("span", { class: g.met ? "failed" : "passed" }, g.met ? "✗ met: exit code 20" : "✓ not met") }, { name: "why", cell: (g) => g.why }], rates(view.totals, gate).concat(view.gates))),
    };
  }

  function verify(page) {
    const run = page.view.run;
    return section("How to verify this", "verify",
      sb.h("p", {}, "This page is a copy of figures that can be checked. Get the run's directory or bundle, and run, without network, engine or pack:"),
      sb.h("pre", { class: "commands", tabindex: "0" }, "securebench verify RUN" + (run.verified ? "" : "      # this one did not verify: see the top") + "\nsecurebench report RUN\nsecurebench reverify RUN --pack PACK   # derives every verdict again"),
      sb.h("dl", { class: "facts" }, page.facts.map((f) => fact(f.name, sb.foreign(f.value)))));
  }

  function about(page) {
    const run = page.view.run, out = [];
    const add = (name, value, note) => { if (value) out.push(fact(name, [sb.foreign(value), note ? sb.h("span", { class: "soft" }, " (" + note + ")") : null])); };
    add("agent", run.agent, run.agent_note);
    add("model", run.model);
    add("program", run.program);
    add("judge", run.judge);
    add("engine", run.engine);
    add("build", run.build);
    add("run", run.run_id);
    add("rows chosen by", run.chosen);
    if (page.view.when) out.push(fact("ran", sb.foreign(page.view.when)));
    if (page.view.made_again) out.push(fact("made again", page.view.made_again));
    return section("About", "about", sb.h("dl", { class: "facts" }, out));
  }

  function know(page) {
    if (!page.remarks || page.remarks.length === 0) return null;
    return section("What a reader should know", "know", sb.h("ul", {}, page.remarks.map((r) => sb.h("li", {}, sb.foreign(r)))));
  }

  const figures = (v) => sb.h("div", { class: "cards" }, (v.groups || []).map(groups), (v.counts || []).map(counts), (v.pass_k || []).map(tries), (v.measures || []).map(measures), v.usage ? usage(v.usage) : null);

  // steering has what changes a run that goes on.
  function steering(id) {
    const box = sb.h("section", { id: "steer", "aria-labelledby": "steer-title" }), said = sb.h("p", { class: "soft", role: "status" });
    const workers = sb.h("input", { type: "number", min: "1", "data-focus": "steer number" });
    let known = ""; // of the workers; another number was typed, and stays until it is set
    const send = async (order) => {
      try {
        const set = await sb.source.steer(id, order);
        if (order.act === "workers") known = workers.value;
        draw(set);
        said.textContent = "done";
      } catch (e) { sb.fill(said, sb.foreign(e.message)); }
    };
    const button = (name, order, off) => sb.h("button", { type: "button", "data-focus": "steer " + order.act, disabled: off, on: { click: () => send(order) } }, name);
    function draw(s) {
      box.hidden = !s;
      if (!s) return sb.fill(box);
      workers.max = s.most;
      if (workers.value === known) workers.value = known = String(s.workers);
      sb.redraw(box, () => [sb.h("h2", { id: "steer-title" }, "The run goes on"),
        sb.h("p", {}, sb.plural(s.running, "attempt") + " under way, " + sb.plural(s.workers, "worker") + (s.draining ? "; draining: no other begins, then the run ends" : s.paused ? "; paused: no other begins" : "")),
        sb.h("p", { class: "steplinks" }, s.paused ? button("resume", { act: "resume" }, s.draining) : button("pause", { act: "pause" }, s.draining), button("drain", { act: "drain" }, s.draining), button("stop", { act: "stop" }),
          sb.h("form", { class: "line", on: { submit: (e) => { e.preventDefault(); send({ act: "workers", workers: Number(workers.value) }); } } },
            sb.h("label", {}, "workers ", workers), " ", sb.h("button", { type: "submit", "data-focus": "steer workers" }, "set"))), said,
        sb.h("p", { class: "note" }, "Pause and drain let attempts under way end; stop cuts them short. Each change is written into the run.")]);
      return null;
    }
    return { element: box, draw: draw };
  }

  sb.views.run = function (main, state) {
    const id = state.path[0];
    let list, drawn = "", view = null;
    const control = sb.source.steer ? steering(id) : null;
    const gate = gates((below) => sb.go("run", [id], Object.assign({}, state.params, { gate: below })));
    gate.name(state.params.gate);
    async function load() {
      const page = await sb.source.run(id);
      sb.crumbs([[sb.foreign(page.summary.path), null]]);
      sb.title(page.summary.path);
      list = sb.attempts(id, state.params);
      draw(page);
      if (sb.source.live) sb.onLeave(sb.source.news(refresh));
      await list.ready;
    }
    // refresh shows what is new of a run, and leaves the filters alone.
    async function refresh() {
      const page = await sb.source.run(id);
      if (control) control.draw(page.steered);
      if (JSON.stringify([page.summary, page.view]) === drawn) return;
      draw(page);
      await list.update(state.params);
    }
    function draw(page) {
      const v = view = page.view;
      sections = 0;
      drawn = JSON.stringify([page.summary, page.view]);
      if (control) control.draw(page.steered);
      gate.draw(v, state.params.gate);
      sb.redraw(main, () => [sb.h("h1", {}, sb.foreign(v.run.pack_id), sb.h("small", {}, " version " + v.run.pack_version)),
        sb.h("p", { class: "line" }, sb.state(page.summary.state), " ", v.run.verified ? sb.foreign(v.run.evidence.replace(/^verified, /, "")) : null),
        (v.banners || []).map((b) => sb.h("p", { class: "banner", role: "alert" }, sb.mixed(b))), control ? control.element : null,
        sb.h("div", { class: "columns" }, sb.h("div", { class: "wide" }, v.totals.map(total), figures(v), list.element), sb.h("div", { class: "narrow" }, about(page), gate.element, verify(page), know(page)))]);
    }
    return { ready: load(), update: (params) => {
      const other = params.gate !== state.params.gate;
      state = Object.assign({}, state, { params: params });
      if (other) gate.name(params.gate);
      if (other && view) gate.draw(view, params.gate);
      return list && list.update(params);
    } };
  };
}
