"use strict";
// A patch as a diff.
{
  const most = 5000; // lines
  const kinds = { "+": "added", "-": "removed", "@": "hunk" };

  // headers begin the part of a file.
  const begins = (line) => line.startsWith("diff --git ");
  const header = /^(diff --git |index |--- |\+\+\+ |new file mode |deleted file mode |old mode |new mode |similarity |rename |copy |Binary files )/;

  function kindOf(line, inHunk) {
    if (!inHunk && header.test(line)) return "header";
    return Object.hasOwn(kinds, line[0]) ? kinds[line[0]] : "same";
  }

  sb.diff = function (text) {
    const lines = text.split("\n");
    if (lines[lines.length - 1] === "") lines.pop();
    const out = [];
    let file = [], inHunk = false, added = 0, removed = 0;
    const end = () => {
      if (file.length) out.push(sb.h("pre", { class: "foreign diff", tabindex: "0", role: "region", "aria-label": "a changed file" }, file));
      file = [];
      inHunk = false;
    };
    for (const line of lines.slice(0, most)) {
      if (begins(line)) end();
      if (line.startsWith("@@")) inHunk = true;
      const kind = kindOf(line, inHunk);
      if (kind === "added") added++;
      if (kind === "removed") removed++;
      file.push(sb.h("span", { class: "line " + kind }, line + "\n"));
    }
    end();
    return [sb.h("p", { class: "soft" }, sb.plural(added, "line") + " added, " + removed + " removed" + (lines.length > most ? "; the first " + most + " of " + lines.length + " lines" : "")), out];
  };
}
