# An agent of the vendors' own libraries. It asks for a text, whole and as a stream, for a
# picture to be looked at, and for a tool to be called, and says what came of each.
import base64, json, os, sys

PICTURE = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=")
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
model = os.environ["SECUREBENCH_MODEL"]
said = {}

def openai_chat():
    import openai
    client = openai.OpenAI()
    said["models"] = [m.id for m in client.models.list()] == [model]
    ask = lambda content, **more: client.chat.completions.create(model=model, messages=[{"role": "user", "content": content}], **more)
    whole = ask("whole")
    said["whole"] = whole.choices[0].message.content == "a whole text" and whole.usage.total_tokens == 12
    chunks = list(ask("stream", stream=True))
    said["stream"] = "".join(c.choices[0].delta.content or "" for c in chunks) == "a text in pieces" and all(c.usage is None for c in chunks)
    counted = list(ask("stream", stream=True, stream_options={"include_usage": True}))
    said["usage"] = counted[-1].choices == [] and counted[-1].usage.total_tokens == 12
    seen = ask([{"type": "text", "text": "picture"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(PICTURE).decode()}}])
    said["picture"] = seen.choices[0].message.content == "a picture"
    tools = [{"type": "function", "function": {"name": "weather", "description": "d", "parameters": SCHEMA}}]
    messages = [{"role": "user", "content": "tools"}]
    call = client.chat.completions.create(model=model, messages=messages, tools=tools).choices[0].message
    said["call"] = call.tool_calls[0].function.name == "weather" and json.loads(call.tool_calls[0].function.arguments) == {"city": "Rome"}
    messages += [call, {"role": "tool", "tool_call_id": call.tool_calls[0].id, "content": "sunny"}]
    with client.chat.completions.stream(model=model, messages=messages, tools=tools) as events:
        for _ in events: pass
        said["result"] = events.get_final_completion().choices[0].message.content == "sunny in Rome"
    try: ask("hosted", tools=[{"type": "web_search"}])
    except openai.PermissionDeniedError as e: said["refused"] = e.code == "external_tools_blocked"

def gemini():
    from google import genai
    from google.genai import types, errors
    client = genai.Client()
    said["models"] = [m.name for m in client.models.list()] == ["models/" + model] and client.models.get(model=model).name == "models/" + model
    whole = client.models.generate_content(model=model, contents="whole")
    said["whole"] = whole.text == "a whole text" and whole.usage_metadata.total_token_count == 12
    chunks = list(client.models.generate_content_stream(model=model, contents="stream"))
    said["stream"] = "".join(c.text or "" for c in chunks) == "a text in pieces" and len(chunks) > 2
    said["usage"] = client.models.count_tokens(model=model, contents="count").total_tokens > 0
    seen = client.models.generate_content(model=model, contents=["picture", types.Part.from_bytes(data=PICTURE, mime_type="image/png")])
    said["picture"] = seen.text == "a picture"
    calls = []
    def weather(city: str) -> str:
        "The weather of a city."
        calls.append(city)
        return "sunny"
    chat = client.chats.create(model=model, config=types.GenerateContentConfig(system_instruction="be brief", tools=[weather], thinking_config=types.ThinkingConfig(include_thoughts=True)))
    said["result"] = chat.send_message("tools").text == "sunny in Rome"
    said["call"] = calls == ["Rome"]
    try: client.models.generate_content(model=model, contents="hosted", config={"tools": [types.Tool(google_search=types.GoogleSearch())]})
    except errors.ClientError as e: said["refused"] = e.code == 403 and "external_tools_blocked" in str(e.details)

{"openai_chat": openai_chat, "gemini": gemini}[sys.argv[1]]()
print("everything works" if len(said) == 8 and all(said.values()) else said)
