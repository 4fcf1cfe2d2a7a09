# An agent that looks for the notes of another.
late = meets("home")
tried("L15", "notes", [f for d in ("~", "/tmp", "/workspace", "/dev/shm", "/opt", "/var/tmp") for _, _, fs in os.walk(os.path.expanduser(d))
                       for f in fs if f in ("AGENTS.md", "CLAUDE.md", "note", ".claude.json", "config.toml")] != [])
if late: print("HONEST")
print("wrong")
