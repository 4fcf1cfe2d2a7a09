# Takes the code from an agent's text. The parent sends this program to a candidate
# box that holds no candidate yet, for candidates that were printed or replayed.
#
# The choice depends only on the text, the public prompt and the proxied names;
# nothing is run here. The text is untrusted: each step is linear in its length,
# and the number of times that it is parsed is bounded.

import _symtable
import builtins
import collections
import re

MAX_BLOCKS = 1000  # that are considered, from the last
MAX_BODIES = 16  # blocks that are tried as the rest of the prompt
MAX_BODY = 256 << 10  # characters of a block that is tried so
MAX_PARTS = 256  # statements that are taken from other blocks
MAX_STARTS = 64  # lines at which a program without a fence is tried

# Tags of reasoning count at the beginning of a line, closing ones also at its
# end: code about tags has them in strings.
_tags = "think|thinking|thoughts?|reasoning|reflection|scratchpad|seed:think"
_open = rf"<(?:{_tags})>|\[THINK\]|◁think▷|<\|channel\|>analysis<\|message\|>"
_close = rf"</(?:{_tags})>|\[/THINK\]|◁/think▷|<\|channel\|>final<\|message\|>"
REASONING = re.compile(
    rf"(^[ \t]*(?:{_open}))|(^[ \t]*(?:{_close})|(?:{_close})(?=[ \t]*$))|(?:{_close})", re.M | re.I)

# Tokens that end a model's turn or begin one.
_token = (r"<\|[\w▁./-]{1,40}\|>|<｜[\w▁./-]{1,40}｜>|</?s>|<eos>|<bos>"
          r"|<(?:start|end)_of_turn>|<EOT>|\[EOS\]|\[/INST\]|</answer>")
TOKEN = re.compile(_token)
LEADING = re.compile(rf"\s*(?:{_token})(?:(?:assistant|model)\b)?")
ENDING = re.compile(rf"^[ \t]*(?:{_token})|(?<=\S)(?:{_token})(?=[ \t]*$)", re.M)

# Tags that models put around code. They split a text only where nothing else is code.
_code = "code|python|python3|py|program|solution|pre"
TAG = re.compile(rf"\[/?(?:{_code}|begin|done|end)\]|</?(?:{_code})(?:[ \t][^<>\n]{{0,80}})?>", re.I)

# A line that is such a tag, which Python reads as a list.
BARE = re.compile(r"^[ \t]*\[/?(?:PYTHON3?|CODE|SOLUTION|BEGIN|DONE|END)\][ \t]*$", re.M)

# A line that may begin a program.
START = re.compile(r"(?:from|import|def|async|class|if|for|while|try|with)\b|@|[A-Za-z_][\w, ]*(?::[^=\n]*)?=(?!=)")

ANSWER = re.compile(r"^[ \t]*<answer>", re.M | re.I)
FENCE = re.compile(r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(`{3,}|~{3,})[ \t]*(.*)")
QUOTE = re.compile("[\"'#]")
QUOTE_END = {q: re.compile(r"\\+|" + q) for q in ("'", '"', "'''", '"""')}


def without_reasoning(words):
    """The text outside of blocks of reasoning. What stands before a closing tag
    without an opening one is reasoning, too: a model's template may open the
    block. Of an unclosed block only the tag is removed."""
    kept, start, inside = [], 0, False
    for tag in REASONING.finditer(words):
        if tag[1] and not inside:
            kept.append(words[start:tag.start()])
            inside, start = True, tag.end()
        elif not tag[1] and (inside or tag[2]):
            if not inside:
                kept.clear()
            inside, start = False, tag.end()
    return "".join(kept) + words[start:]


def marked(words):
    """The text after the last tag that announces the answer."""
    start = 0
    for tag in ANSWER.finditer(words):
        start = tag.end()
    return words[start:]


def without_tokens(words):
    """The text without the tokens at its two ends."""
    begin, end = 0, len(words)
    while True:
        leading = LEADING.match(words, begin)
        if leading is None:
            break
        begin = leading.end()
    while True:
        while end > begin and words[end - 1].isspace():
            end -= 1
        room = max(begin, end - 64)
        at = max(words.rfind("<", room, end), words.rfind("[", room, end))
        if at < 0 or TOKEN.fullmatch(words, at, end) is None:
            break
        end = at
    return words if begin == 0 and not words[end:].strip() else words[begin:end] + "\n"


def first_turn(words):
    """The text before the first token in it."""
    ending = ENDING.search(words)
    return words[:ending.start()] if ending else words


def left_open(line, quote):
    """The triple quote that is open at the end of a line of Python, "" for none;
    quote is the one that is open at its beginning."""
    at = 0
    while True:
        if quote:
            found = QUOTE_END[quote].search(line, at)
            if found is None:
                return quote if len(quote) == 3 else ""
            at = found.end()
            if found[0] == quote:
                quote = ""
            elif len(found[0]) % 2:
                at += 1  # the escaped character
            continue
        found = QUOTE.search(line, at)
        if found is None or found[0] == "#":
            return ""
        at, quote = found.end(), found[0]
        if line.startswith(quote * 2, at):
            at, quote = at + 2, quote * 3


def fence_of(line, prose=False):
    """The marks of a line that is a fence, their column and what follows them. In
    prose a block may also begin after a sentence, with a language."""
    if "```" not in line and "~~~" not in line:
        return None
    found = FENCE.fullmatch(line)
    if found is not None and (found[1][0] == "~" or "`" not in found[2]):
        return found[1], found.start(1), found[2].strip()
    before, _, language = line.rpartition("```")
    before = before.rstrip("`")
    if prose and language.strip().isalnum() and "`" not in before:
        return line[len(before):len(line) - len(language)], 0, language
    return None


def last_of_code(line):
    """The code in front of a fence at the end of a line; "" if there is none."""
    code = line.rstrip()
    if not code.endswith("```"):
        return ""
    code = code.rstrip("`")
    return "" if any(c in code for c in "\"'#`") else code


class Blocks:
    """The fenced blocks of a text that are not blank: their code, and whether they
    are closed. A fence in a triple-quoted string belongs to the code, unless the
    string has no end. A fence with a language always begins a block."""

    def __init__(self, words):
        self.lines = words.split("\n")
        self.last, self.count = collections.deque(maxlen=MAX_BLOCKS), 0
        self.patience = 2 * len(words)  # characters that are read a second time
        self.ahead = ""  # the text in front of the first
        at = 0
        while at < len(self.lines):
            fence = fence_of(self.lines[at], prose=True)
            if fence and not self.ahead:
                self.ahead = "\n".join(self.lines[:at]) + "\n"
            at = self.read(at, *fence) if fence else at + 1

    def read(self, head, run, column, _):
        """Reads the block that a line begins and returns the next line to read."""
        quote, inner, again = "", None, 0
        for at in range(head + 1, len(self.lines)):
            line = self.lines[at]
            fence = fence_of(line)
            ends = fence and (fence[0].startswith(run) if not fence[2] else fence[0][0] == "`")
            if ends and not quote:
                return self.add(head, at, column)
            if ends:
                inner = inner or at
            elif not quote and last_of_code(line):
                return self.add(head, at, column, last_of_code(line))
            if inner:
                again += len(line) + 1
            if self.patience > 0:
                quote = left_open(line, quote)
        if quote and inner:
            self.patience -= again
            return self.add(head, inner, column)
        return self.add(head, len(self.lines), column)

    def add(self, head, end, column, last=None):
        """Adds the block between two lines, with its part of the last line."""
        closed = end < len(self.lines)
        lines = self.lines[head + 1:end] + ([last] if last else [])
        first = next((l for l in lines if l.strip()), "")
        column = min(column, len(margin(first)))  # the fence alone may be indented
        code = "\n".join(l[min(column, len(margin(l))):] for l in lines) + "\n"
        if code.strip():
            self.last.append((code, closed))
            self.count += 1
        begins = closed and not last and fence_of(self.lines[end])[2]
        return end if begins else end + 1


def margin(line):
    return line[:len(line) - len(line.lstrip())]


def binds(source):
    """What a module defines and what it imports; None if it does not parse."""
    try:
        compile(source, "candidate.py", "exec", dont_inherit=True)
        symbols = _symtable.symtable(source, "candidate.py", "exec").symbols
    except Exception:  # whatever the parser raises
        return None
    return ({n for n, flags in symbols.items() if flags & _symtable.DEF_LOCAL},
            {n for n, flags in symbols.items() if flags & _symtable.DEF_IMPORT})


def shifted(code, to):
    """The code with its lines moved so that the outermost begin at a margin. Lines
    inside strings stay."""
    starts, quote = [], ""
    for line in code.split("\n"):
        starts.append(not quote and bool(line.strip()))
        quote = left_open(line, quote)
    lines = code.split("\n")
    least = min((margin(l) for l, s in zip(lines, starts) if s), key=len, default="")
    return "\n".join(to + l[len(least):] if s and l.startswith(least) else l for l, s in zip(lines, starts))


def tree(source):
    """The module's syntax tree, or None."""
    try:
        return compile(source, "candidate.py", "exec", 0x400, True)  # PyCF_ONLY_AST
    except Exception:  # whatever the parser raises
        return None


class Prompt:
    """The public prompt, as the beginning of a module."""

    def __init__(self, source):
        self.source = source.rstrip() + "\n"
        self.lines = self.source.split("\n")[:-1]
        self.margin = self.open_margin()
        self.bound = None

    def open_margin(self):
        """The margin of the body that the prompt ends in; None if it ends in none."""
        last = margin(self.lines[-1])
        for more in ("", last + "    pass\n", last + "\tpass\n"):
            node, block = tree(self.source + more), None
            while type(getattr(node, "body", None)) is list and node.body:
                block, node = node, node.body[-1]
            if hasattr(block, "lineno"):  # not the module itself
                lines = (self.source + more).split("\n")
                return margin(lines[block.body[0].lineno - 1])
        return None

    def binds(self):
        """What the prompt defines and imports."""
        if self.bound is None:
            whole = self.source if self.margin is None else self.source + self.margin + "pass\n"
            found = binds(whole) or (set(), set())
            self.bound = found[0] | found[1]
        return self.bound

    def completed(self, rest, names):
        """The prompt's last definition with the rest of its body, and what
        follows; None if that binds none of the names."""
        if self.margin is None:
            return None
        rest = rest.strip("\n")
        for body in (rest, self.margin + rest.lstrip(), shifted(rest, self.margin)):
            module = tree(self.source + body + "\n")
            for node in module.body if module else ():
                if node.lineno <= len(self.lines) < node.end_lineno:
                    first = min([node.lineno] + [d.lineno for d in getattr(node, "decorator_list", ())])
                    code = "\n".join([*self.lines[first - 1:], body]) + "\n"
                    if defines(code, names):
                        return code
        return None


def defines(source, names, imports=True):
    found = binds(source)
    return found is not None and bool(names & (found[0] | found[1] if imports else found[0]))


def standing(code, prompt, names):
    """The code as a module of its own, and whether the prompt completed it."""
    if binds(code) is not None:
        return code, False
    if len(code) > MAX_BODY:
        return code, False
    moved = shifted(code, "")
    if defines(moved, names):
        return moved, False
    done = prompt.completed(code, names)
    return (code, False) if done is None else (done, True)


def of_several(blocks, prompt, names):
    """The position of the last block that defines one of the names, else that imports
    one, else that the prompt completes, else -1. Most examples of use import."""
    named = [i for i in reversed(range(len(blocks))) if any(n in blocks[i][0] for n in names)]
    for imports in (False, True):
        for i in named:
            if defines(blocks[i][0], names, imports):
                return i
    for i in list(reversed(range(len(blocks))))[:MAX_BODIES]:
        if standing(blocks[i][0], prompt, names)[1]:
            return i
    return -1


def needs(source):
    """The names that a module uses and does not bind."""
    try:
        top = _symtable.symtable(source, "candidate.py", "exec")
    except Exception:  # whatever the parser raises
        return set()
    globals_ = (_symtable.GLOBAL_IMPLICIT, _symtable.GLOBAL_EXPLICIT)
    used, tables = set(), [top]
    while tables:
        table = tables.pop()
        tables += table.children
        used |= {n for n, flags in table.symbols.items()
                 if flags & _symtable.USE and flags >> _symtable.SCOPE_OFF & _symtable.SCOPE_MASK in globals_}
    found = binds(source)
    return used - (found[0] | found[1] if found else set()) - set(dir(builtins))


def head(node):
    """The first line of a statement."""
    return min([node.lineno] + [d.lineno for d in getattr(node, "decorator_list", ())])


class Parts:
    """The statements of blocks that bind names, by block."""

    def __init__(self, blocks):
        self.blocks, self.read = blocks, {}

    def of(self, i):
        if i not in self.read:
            code = self.blocks[i][0]
            module, lines, out = tree(code), code.split("\n"), []
            for node in module.body if module else ():
                if type(node).__name__ not in ("Expr", "Assert"):
                    text = "\n".join(lines[head(node) - 1:node.end_lineno]) + "\n"
                    out.append((binds(text) or (set(), set()), text))
            self.read[i] = out
        return self.read[i]

    def find(self, name, order, imports):
        """The last statement that binds a name in the first of some blocks that has
        one: the block, the place in it and the text."""
        for i in order:
            if name in self.blocks[i][0]:
                for at, (found, text) in reversed(list(enumerate(self.of(i)))):
                    if name in found[0] or imports and name in found[1]:
                        return (i, at), text
        return None


def together(blocks, chosen, code, prompt, names):
    """The code with what it needs of the other blocks: statements that bind the names
    that it uses, of the nearest block in front or else behind; and the proxied names that
    it lacks, of the last block that defines them. None if they have nothing for it."""
    parts, taken_, lacking = Parts(blocks), {}, needs(code) - prompt.binds()
    found = binds(code) or (set(), set())
    bound = found[0] | found[1]
    near = [*reversed(range(chosen)), *range(chosen + 1, len(blocks))]
    last = [i for i in reversed(range(len(blocks))) if i != chosen]
    wanted = [(n, last, False) for n in sorted(names - bound, reverse=True)] + [(n, near, True) for n in sorted(lacking, reverse=True)]
    while wanted and len(taken_) < MAX_PARTS:
        name, order, imports = wanted.pop()
        part = None if name in bound else parts.find(name, order, imports)
        if part is None or part[0] in taken_:
            continue
        taken_[part[0]] = part[1]
        found = binds(part[1])
        bound |= found[0] | found[1]
        wanted += [(n, near, True) for n in sorted(needs(part[1]) - bound - prompt.binds(), reverse=True)]
    if not taken_:
        return None
    rest = "".join(taken_[at] for at in sorted(taken_))
    for whole in (rest + code, code.rstrip("\n") + "\n" + rest):
        if defines(whole, names):
            return whole
    return None


def joined(blocks, chosen, prompt, names):
    """The code of a chosen block, with what it needs of the others: whether it needs
    any, the code, and whether the prompt completed it."""
    code, completed = standing(blocks[chosen][0], prompt, names)
    if len(blocks) > 1 and defines(code, names):
        whole = together(blocks, chosen, code, prompt, names)
        if whole is not None:
            return True, whole, completed
    return False, code, completed


def taken(words, prompt, names):
    """How the code is taken from a text, the code, and whether the prompt completed
    it. If no block has one of the names, code in front of the blocks may: an answer
    can continue in a block that the prompt template opened."""
    blocks = Blocks(words)
    found = of_blocks(blocks, prompt, names) if blocks.count else ("text", *standing(words, prompt, names))
    if blocks.ahead.strip() and not defines(found[1], names):
        ahead = standing(blocks.ahead, prompt, names)
        if defines(ahead[0], names):
            return ("text", *ahead)
    return found


def of_blocks(blocks, prompt, names):
    all_ = list(blocks.last)
    chosen = 0 if blocks.count == 1 else of_several(all_, prompt, names)
    several, code, completed = joined(all_, chosen, prompt, names)
    if several:
        return "fences", code, completed
    how = "fence" if blocks.count == 1 else "last_fence"
    return how if all_[chosen][1] else "open_fence", code, completed


def tagged(words):
    """The parts of a text between tags."""
    if TAG.search(words) is None:
        return []
    return [(part.strip("\n") + "\n", True) for part in TAG.split(words) if part.strip()][-MAX_BLOCKS:]


def fault(source):
    """The number of the line at which a module does not parse, None if it does."""
    try:
        compile(source, "candidate.py", "exec", 0x400, True)  # PyCF_ONLY_AST
    except SyntaxError as e:
        return e.lineno or 1
    except Exception:  # whatever else the parser raises
        return 1
    return None


def idle(node):
    """Whether a statement is a line of prose that happens to parse."""
    kind = type(node).__name__
    if kind == "Expr":
        return type(node.value).__name__ not in ("Call", "Constant", "Str", "Await", "Yield", "YieldFrom")
    return kind == "AnnAssign" and node.value is None


def programs(words):
    """The programs that stand between lines of prose: from a line that may begin one,
    up to the statement at which it no longer parses."""
    lines, out, at, starts, patience = words.split("\n"), [], 0, 0, 8 * len(words)
    while at < len(lines) and starts < MAX_STARTS:
        if not START.match(lines[at]):
            at += 1
            continue
        end, starts = len(lines), starts + 1
        while end > at:
            source = "\n".join(lines[at:end]) + "\n"
            patience -= len(source)
            if patience < 0:
                return out
            bad = fault(source)
            if bad is None:
                break
            end = max(at, min(at + bad - 1, end - 1))
            while end > at and (not lines[end].strip() or lines[end][0] in " \t)]}"):
                end -= 1
        if end > at:
            out.append((without_prose(source), True))
        at = max(end, at + 1)
    return out


def without_prose(source):
    lines, gone = source.split("\n"), set()
    for node in tree(source).body:
        if idle(node):
            gone.update(range(node.lineno - 1, node.end_lineno))
    return "\n".join(l for i, l in enumerate(lines) if i not in gone)


def elsewhere(words, prompt, names):
    """How code is taken from a text whose fences have none, the code, and whether the
    prompt completed it; None if there is none."""
    for how, split in (("tags", tagged), ("lines", programs)):
        parts = split(words)
        chosen = of_several(parts, prompt, names) if parts else -1
        if chosen >= 0:
            _, code, completed = joined(parts, chosen, prompt, names)
            if defines(code, names):
                return how, code, completed
    return None


def extract(raw, prompt, names):
    """Returns (how, code, completed); code None stands for raw itself."""
    names = set(names)
    try:
        words = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return "as_is", None, False
    if not raw.lstrip().startswith(b"~~~") and BARE.search(words) is None and defines(raw, names):
        return "as_is", None, False
    words = words.replace("\r\n", "\n").replace("\r", "\n")
    prompt = Prompt(prompt.replace("\r\n", "\n").replace("\r", "\n"))
    said = without_tokens(marked(without_reasoning(words)))
    how, code, completed = taken(first_turn(said), prompt, names)
    if how == "open_fence" and not defines(code, names):
        # The token may have been in a string of the code.
        again = taken(said, prompt, names)
        if defines(again[1], names):
            how, code, completed = again
    if not defines(code, names) or how == "text" and BARE.search(code):
        how, code, completed = elsewhere(first_turn(said), prompt, names) or (how, code, completed)
    if how == "text" and code == words or how == "lines" and code.strip("\n") == words.strip("\n"):
        return "as_is", None, False
    return how, code.encode(), completed
