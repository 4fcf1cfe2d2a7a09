"use strict";
// Where the page's data come from: the server that serves it, files beside it, or the
// file that it is in. All answer the same questions.
{
  async function ask(path, params) {
    const query = new URLSearchParams(Object.entries(params || {}).filter(([, v]) => v !== undefined && v !== ""));
    const answer = await fetch("api/" + path + "?" + query, { cache: "no-store" });
    const value = await answer.json();
    if (!answer.ok) throw new Error(value.error);
    return value;
  }

  const served = {
    live: true,
    list: () => ask("list"),
    run: (id) => ask("run", { run: id }),
    attempts: (id, by) => ask("attempts", Object.assign({ run: id }, by)),
    attempt: (id, key) => ask("attempt", { run: id, key: key }),
    compare: (by) => ask("compare", by),
    steer: async (id, order) => {
      const answer = await fetch("api/steer?" + new URLSearchParams({ run: id }), { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(order) });
      const value = await answer.json();
      if (!answer.ok) throw new Error(value.error);
      return value;
    },
    // news calls f when something may have changed, until what it returns is called. A
    // page that nobody sees asks for none: a browser keeps few connections open.
    news: (f) => {
      let stream = null;
      const follow = () => {
        if (document.hidden && stream) stream = stream.close();
        if (document.hidden || stream) return;
        stream = new EventSource("api/news");
        stream.addEventListener("message", () => f().catch(() => {})); // what fails is asked for again
      };
      document.addEventListener("visibilitychange", follow);
      follow();
      return () => {
        document.removeEventListener("visibilitychange", follow);
        if (stream) stream.close();
      };
    },
  };

  // kept answers from what was written: get(name) returns the value of a name.
  function kept(get) {
    const run = (id) => get("run/" + id), texts = new Map();

    // textsOf reads what was asked and answered in all attempts of a run, once.
    function textsOf(id) {
      if (!texts.has(id)) texts.set(id, read(id).catch((e) => { texts.delete(id); throw e; }));
      return texts.get(id);
    }
    async function read(id) {
      const page = await run(id), of = new Map(), names = [];
      for (let n = 0; n * page.per_part < page.rows.length; n++) names.push("attempts/" + id + "/" + n);
      let cut = false;
      (await Promise.all(names.map(get))).flat().forEach((a, i) => {
        const parts = (a.parts || []).filter((p) => /^(prompt|candidate)\b/.test(p.title));
        cut = cut || parts.some((p) => /\bcut to\b/.test(p.note || ""));
        of.set(page.rows[i], parts.map((p) => p.text).join("\n").toLowerCase());
      });
      return { of: (row) => of.get(row), cut: cut };
    }
    return {
      live: false,
      list: () => get("list"),
      run: run,
      attempts: async (id, by) => {
        const rows = (await run(id)).rows;
        if (by.in !== "texts" || !by.q) return sb.query(rows, by);
        const more = await textsOf(id);
        return Object.assign(sb.query(rows, by, more.of), { cut: more.cut });
      },
      attempt: async (id, key) => {
        const page = await run(id), i = page.rows.findIndex((r) => r.key === key);
        if (i < 0) throw new Error("there is no such thing here");
        const part = await get("attempts/" + id + "/" + Math.floor(i / page.per_part));
        return { row: page.rows[i], attempt: part[i % page.per_part], previous: (page.rows[i - 1] || {}).key, next: (page.rows[i + 1] || {}).key };
      },
    };
  }

  // Files beside the page call sb.data when they are loaded: a page that is opened from
  // disk can read no others.
  const values = new Map(), waiting = new Map();
  sb.data = function (name, value) { values.set(name, value); };

  function fromFolder(name) {
    if (!waiting.has(name)) {
      waiting.set(name, new Promise((done, failed) => {
        const script = document.createElement("script");
        script.src = "data/" + name.split("/").map(encodeURIComponent).join("/") + ".js";
        script.addEventListener("load", () => values.has(name) ? done(values.get(name)) : failed(new Error("a file beside this page is damaged")));
        script.addEventListener("error", () => failed(new Error("a file beside this page is missing")));
        document.head.append(script);
      }));
    }
    return waiting.get(name);
  }

  async function fromFile(name) {
    if (values.size === 0) {
      for (const [n, v] of Object.entries(JSON.parse(document.getElementById("data").textContent))) values.set(n, v);
    }
    if (!values.has(name)) throw new Error("there is no such thing here");
    return values.get(name);
  }

  // A folder has the comparisons of two runs that were written into it.
  async function compareTwo(by) {
    const ids = (by.runs || "").split("\n"), list = await fromFolder("list");
    const pair = ids.length === 2 && (list.compared || []).find((p) => ids.every((id) => p.includes(id)));
    if (!pair || ids[0] === ids[1]) throw new Error("this folder has no comparison of these runs");
    const name = "compare/" + pair.join("/"), c = await fromFolder(name);
    return sb.tasks(by.allow && c.refused && c.refused.every((r) => r.kind) ? await fromFolder(name + "/allowed") : c, by);
  }

  sb.source = { served: served, folder: Object.assign(kept(fromFolder), { compare: compareTwo }), file: kept(fromFile) }[document.body.dataset.source];
}
