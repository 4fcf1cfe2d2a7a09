"""A small agent that speaks the agent client protocol. The question says how it misbehaves."""
import json, os, sys, urllib.request

def send(message):
    sys.stdout.write(json.dumps(dict(message, jsonrpc="2.0")) + "\n")
    sys.stdout.flush()

def ask(method, params):
    send({"id": "mine", "method": method, "params": params})
    while True:
        answer = json.loads(sys.stdin.readline())
        if answer.get("id") == "mine":
            return answer

def says(text):
    for part in text[:3], text[3:]:
        send({"method": "session/update", "params": {"sessionId": "s", "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": part}}}})

def model():
    key = os.environ["OPENAI_API_KEY"]
    body = {"model": os.environ["SECUREBENCH_MODEL"], "messages": [{"role": "user", "content": "2+2?"}]}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(),
        {"Content-Type": "application/json", "Authorization": "Bearer " + key})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]

def turn(prompt):
    with open(os.environ["SECUREBENCH_TASK_FILE"]) as f:
        task = f.read()
    if os.environ["SECUREBENCH_TASK_FILE"] not in prompt:
        return says("there is no task in the prompt")
    answer = model()
    if "permission" in task:
        got = ask("session/request_permission", {"sessionId": "s", "toolCall": {"toolCallId": "1"}, "options": [
            {"optionId": "no", "name": "No", "kind": "reject_once"}, {"optionId": "yes", "name": "Yes", "kind": "allow_once"}]})
        if got["result"]["outcome"].get("optionId") != "yes":
            answer = "it was not allowed"
    if "files" in task:
        for method, params in ("fs/read_text_file", {"path": "/etc/passwd"}), ("terminal/create", {"command": "id"}):
            if "error" not in ask(method, dict(params, sessionId="s")):
                answer = "PWNED"
    if "flood" in task:
        sys.stdout.write("x" * (20 << 20) + "\n" + "{" * 100000 + "\n")
    if "forged" in task:
        print(json.dumps({"type": "message", "text": answer}), flush=True)
        return
    if "early" in task:
        sys.exit("it fell over")
    says(answer)

for line in sys.stdin:
    asked = json.loads(line)
    result = {"initialize": {"protocolVersion": 1}, "session/new": {"sessionId": "s"}, "session/prompt": {"stopReason": "end_turn"}}.get(asked.get("method"))
    if asked.get("method") == "session/prompt":
        turn(asked["params"]["prompt"][0]["text"])
    if result is not None:
        send({"id": asked["id"], "result": result})
