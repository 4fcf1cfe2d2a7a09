# What of an agent's words is its code. The parent sends this text to a worker
# that holds no candidate yet, for candidates that were printed or replayed.
#
# The choice depends on the words, the public prompt and the proxied names
# alone; nothing is run here. The words are untrusted: each step is linear in
# their length, and how often they are parsed is bounded.

import _symtable
import collections
import re

MOST_BLOCKS = 1000  # that are looked at, from the last
MOST_BODIES = 16  # blocks that are tried as the rest of the prompt
LONGEST_BODY = 256 << 10  # that is tried so, in characters

# Tags of reasoning count where a line begins with them, closing ones also where
# a line ends: code that speaks of tags has them in a string.
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

ANSWER = re.compile(r"^[ \t]*<answer>", re.M | re.I)
FENCE = re.compile(r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(`{3,}|~{3,})[ \t]*(.*)")
QUOTE = re.compile("[\"'#]")
QUOTE_END = {q: re.compile(r"\\+|" + q) for q in ("'", '"', "'''", '"""')}


def without_reasoning(words):
    """The words outside of blocks of reasoning. What stands before a closing
    tag that has no opening one is reasoning as well: a model's template may
    open the block. An opening tag that nothing closes goes alone."""
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
    """The words behind the last tag that says that the answer follows."""
    start = 0
    for tag in ANSWER.finditer(words):
        start = tag.end()
    return words[start:]


def without_tokens(words):
    """The words without the tokens at their two ends."""
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
    """The words before the first token among them."""
    ending = ENDING.search(words)
    return words[:ending.start()] if ending else words


def left_open(line, quote):
    """The triple quote that a line of Python leaves open, "" for none; quote is
    the one in which it begins."""
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
                at += 1  # what the backslash stands before
            continue
        found = QUOTE.search(line, at)
        if found is None or found[0] == "#":
            return ""
        at, quote = found.end(), found[0]
        if line.startswith(quote * 2, at):
            at, quote = at + 2, quote * 3


def fence_of(line, prose=False):
    """The run of a line that is a fence, its column and what stands behind. In
    prose a block may also begin behind a sentence, with a language."""
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
    """The code in front of a fence that ends a line; "" where there is none."""
    code = line.rstrip()
    if not code.endswith("```"):
        return ""
    code = code.rstrip("`")
    return "" if any(c in code for c in "\"'#`") else code


class Blocks:
    """The fenced blocks of a text that are not blank: their code, and whether
    they are closed. A fence in a triple-quoted string is the code's own, unless
    the string has no end. A fence with a language begins a block, also where
    none should."""

    def __init__(self, words):
        self.lines = words.split("\n")
        self.last, self.count = collections.deque(maxlen=MOST_BLOCKS), 0
        self.patience = 2 * len(words)  # characters that are read a second time
        self.ahead = ""  # the text in front of the first
        at = 0
        while at < len(self.lines):
            fence = fence_of(self.lines[at], prose=True)
            if fence and not self.ahead:
                self.ahead = "\n".join(self.lines[:at]) + "\n"
            at = self.read(at, *fence) if fence else at + 1

    def read(self, head, run, column, _):
        """Reads the block that a line begins and tells where to go on."""
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
        """Notes the block between two lines, with what of it is in the last."""
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
    """What a module defines and what it imports; None for text that is none."""
    try:
        compile(source, "candidate.py", "exec", dont_inherit=True)
        symbols = _symtable.symtable(source, "candidate.py", "exec").symbols
    except Exception:  # whatever a parser has to say
        return None
    return ({n for n, flags in symbols.items() if flags & _symtable.DEF_LOCAL},
            {n for n, flags in symbols.items() if flags & _symtable.DEF_IMPORT})


def shifted(code, to):
    """The code with its lines moved so that the outermost begin at a margin.
    Lines inside of strings stay."""
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
    except Exception:  # whatever a parser has to say
        return None


class Prompt:
    """The public prompt, as the beginning of a module."""

    def __init__(self, source):
        self.source = source.rstrip() + "\n"
        self.lines = self.source.split("\n")[:-1]
        self.margin = self.open_margin()

    def open_margin(self):
        """The margin of the body that the prompt ends in; None for no body."""
        last = margin(self.lines[-1])
        for more in ("", last + "    pass\n", last + "\tpass\n"):
            node, block = tree(self.source + more), None
            while type(getattr(node, "body", None)) is list and node.body:
                block, node = node, node.body[-1]
            if hasattr(block, "lineno"):  # not the module itself
                lines = (self.source + more).split("\n")
                return margin(lines[block.body[0].lineno - 1])
        return None

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
    if len(code) > LONGEST_BODY:
        return code, False
    moved = shifted(code, "")
    if defines(moved, names):
        return moved, False
    done = prompt.completed(code, names)
    return (code, False) if done is None else (done, True)


def of_several(blocks, prompt, names):
    """The last block that defines one of the names, else that imports one, else
    that the prompt completes, else the last. Most examples of use import."""
    named = [b for b in reversed(blocks) if any(n in b[0] for n in names)]
    for imports in (False, True):
        for block in named:
            if defines(block[0], names, imports):
                return block
    for block in list(reversed(blocks))[:MOST_BODIES]:
        if standing(block[0], prompt, names)[1]:
            return block
    return blocks[-1]


def taken(words, prompt, names):
    """How the code is taken from words, the code, and whether it was completed.
    Where no block has one of the names, code in front of them may: an answer can
    go on in a block that was begun for it."""
    blocks = Blocks(words)
    found = of_blocks(blocks, prompt, names) if blocks.count else ("text", *standing(words, prompt, names))
    if blocks.ahead.strip() and not defines(found[1], names):
        ahead = standing(blocks.ahead, prompt, names)
        if defines(ahead[0], names):
            return ("text", *ahead)
    return found


def of_blocks(blocks, prompt, names):
    block = blocks.last[0] if blocks.count == 1 else of_several(blocks.last, prompt, names)
    how = "fence" if blocks.count == 1 else "last_fence"
    return (how if block[1] else "open_fence", *standing(block[0], prompt, names))


def extract(raw, prompt, names):
    """Answers (how, code, completed); no code is all of it, as it came."""
    names = set(names)
    if not raw.lstrip().startswith(b"~~~") and defines(raw, names):
        return "as_is", None, False
    try:
        words = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
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
    if how == "text" and code == words:
        return "as_is", None, False
    return how, code.encode(), completed
