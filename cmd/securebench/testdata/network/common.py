import base64, gzip, json, os, re, socket, struct, subprocess, sys, threading, urllib.parse

API = os.environ["API"]
CODEX = API == "codex"
relay, port = os.environ["RELAY"].split(":")
# What each API is asked at, the header of its key and the variable that has it.
PATH, CREDENTIAL, VARIABLE = {
    "codex": ("/v1/responses", "Authorization: Bearer ", "OPENAI_API_KEY"),
    "claude_code": ("/v1/messages", "X-Api-Key: ", "ANTHROPIC_API_KEY"),
    "openai_chat": ("/v1/chat/completions", "Authorization: Bearer ", "OPENAI_API_KEY"),
    "gemini": ("/v1beta/models/gemini-1:streamGenerateContent?alt=sse", "X-Goog-Api-Key: ", "GEMINI_API_KEY"),
}[API]
TOKEN = os.environ[VARIABLE]

def tried(row, what, won):
    print("tried", row, what)
    if won: print("PWN", row, what)

def can(do):
    try: return do()
    except (OSError, ValueError): return False

def ask(data, wait=30):
    """Sends bytes on a connection of its own, and returns what comes back."""
    out = b""
    try:
        with socket.create_connection((relay, int(port)), 10) as s:
            s.settimeout(wait)
            try: s.sendall(data)
            except OSError: pass
            while chunk := s.recv(65536): out += chunk
    except OSError: pass
    return out

def body(text="hello", **more):
    if CODEX: plain = {"model": "gpt-1", "stream": True, "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}]}
    elif API == "gemini": plain = {"contents": [{"role": "user", "parts": [{"text": text}]}]}
    elif API == "openai_chat": plain = {"model": "chat-1", "stream": True, "messages": [{"role": "user", "content": [{"type": "text", "text": text}]}]}
    else: plain = {"model": "claude-one-1", "stream": True, "max_tokens": 100, "messages": [{"role": "user", "content": [{"type": "text", "text": text}]}]}
    return json.dumps({**plain, **more})

def request(content, line=None, fields="", token=TOKEN, close=True):
    if isinstance(content, str): content = content.encode()
    given = CREDENTIAL + token + "\r\n" if token else ""
    head = (line or "POST " + PATH) + " HTTP/1.1\r\nHost: x\r\n" + given + "Content-Type: application/json\r\n" + fields
    if "Content-Length" not in fields and "Transfer-Encoding" not in fields: head += "Content-Length: %d\r\n" % len(content)
    return (head + ("Connection: close\r\n" if close and "Connection" not in fields else "") + "\r\n").encode() + content

def says(text, **more): return ask(request(body(text, **more)), 120)

def honest(): return b"hello from the model" in says("hello")

def meets(where): return b"met" in says("meet " + where)

def forms(secret):
    """The ways in which a key may be written down."""
    out = [secret, secret[::-1], secret.hex().encode(), urllib.parse.quote(secret).encode()]
    for before in range(3):
        text = base64.b64encode(b"x" * before + secret).rstrip(b"=")
        out.append(text[(0, 2, 3)[before]:len(text) - (1 if (before + len(secret)) % 3 else 0)])
    return out

KEY = forms(b"sb-" + b"test-" + b"4f1c")
