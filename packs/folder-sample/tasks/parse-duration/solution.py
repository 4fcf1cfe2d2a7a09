import re


def parse_duration(text):
    found = re.fullmatch(r"\s*(?:(\d+)h)?\s*(?:(\d+)m)?\s*(?:(\d+)s)?\s*", text, re.ASCII)
    if not found or not any(found.groups()):
        raise ValueError("no duration")
    hours, minutes, seconds = (int(n or 0) for n in found.groups())
    return 3600 * hours + 60 * minutes + seconds
