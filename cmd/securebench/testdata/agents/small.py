#!/usr/bin/env python3
"""A small agent that speaks Chat Completions. Its first argument says how it misbehaves."""
import json, os, subprocess, sys, urllib.request

mode, model, relay, prompt = sys.argv[1:5] if len(sys.argv) > 4 else ("version", "", "", "")
if mode == "version":
    print("small 1.0.0")
    sys.exit(0)
if mode == "silent":
    sys.exit(0)

SHELL = {"type": "function", "function": {"name": "run_shell_command", "description": "runs a command",
    "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}}}

def ask(messages):
    body = {"model": model, "messages": messages, "tools": [SHELL]}
    if mode == "hosted" or "--hosted" in sys.argv:
        body["web_search_options"] = {}
    request = urllib.request.Request(relay + "/v1/chat/completions", json.dumps(body).encode(),
        {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["SMALL_KEY"]})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["choices"][0]["message"]

messages = [{"role": "user", "content": prompt}]
while True:
    said = ask(messages)
    messages.append(said)
    if said.get("content") and mode not in ("mute", "crash"):
        print(json.dumps({"type": "says", "text": said["content"]}), flush=True)
    calls = said.get("tool_calls") or []
    for call in calls:
        command = json.loads(call["function"]["arguments"])["command"]
        ran = subprocess.run(command, shell=True, capture_output=True, text=True) if mode != "idle" else None
        result = ran.stdout + ran.stderr if ran else open(os.environ["SECUREBENCH_TASK_FILE"]).read()
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    if not calls:
        break
if mode == "wrong":
    open("/workspace/candidate.py", "w").write("def initials(name): return name\n")
if mode == "crash":
    os.remove("/workspace/candidate.py")
    sys.exit("it fell over")
