"""An agent in about 60 lines: a loop of model calls and a shell tool.

securebench starts it in the task's sandbox, in an empty workspace with the task as
JSON. What it prints is its answer. It needs only Python, no packages."""

import json
import os
import subprocess
import sys
import urllib.request

STEPS = 20  # model calls, at most
SHELL = {
    "type": "function", "name": "shell_command", "description": "Run a command in the sandbox's shell.",
    "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
}
RULES = """You solve one task in a sandbox without a network. Work step by step, use the
shell where it helps, and check your result. Your last message is your answer and must
contain nothing else. Give a number or a short text in its last line, after "Answer:".
Give code as one block with the whole program."""


def ask(conversation):
    """Send the conversation to the model. The relay adds the key that this process does not have."""
    body = {"model": os.environ["SECUREBENCH_MODEL"], "instructions": RULES, "input": conversation, "tools": [SHELL]}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/responses", json.dumps(body).encode(), {
        "Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]})
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)["output"]


def run(arguments):
    """Run the command of a tool call, and return what the model sees of it."""
    try:
        done = subprocess.run(["sh", "-c", json.loads(arguments)["command"]], capture_output=True, timeout=60)
    except subprocess.TimeoutExpired:
        return "the command took more than 60 seconds"
    except (ValueError, KeyError, TypeError):
        return "the arguments are not of the form {\"command\": TEXT}"
    return f"exit code {done.returncode}\n" + (done.stdout + done.stderr).decode(errors="replace")[-10_000:]


def main():
    with open(os.environ["SECUREBENCH_TASK_FILE"]) as f:
        conversation = [{"role": "user", "content": f.read()}]
    for _ in range(STEPS):
        output = ask(conversation)
        text = "\n".join(part["text"] for item in output if item["type"] == "message"
                         for part in item["content"] if part["type"] == "output_text")
        calls = [item for item in output if item["type"] == "function_call"]
        if not calls:
            return print(text)
        if text:
            conversation.append({"role": "assistant", "content": text})
        for call in calls:
            print("$", call["arguments"], file=sys.stderr)
            conversation.append({key: call[key] for key in ("type", "call_id", "name", "arguments")})
            conversation.append({"type": "function_call_output", "call_id": call["call_id"], "output": run(call["arguments"])})
    sys.exit(f"no answer after {STEPS} steps")


main()
