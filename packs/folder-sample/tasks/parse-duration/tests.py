assert parse_duration("45s") == 45
assert parse_duration("1h 30m") == 5400
assert parse_duration("2h5s") == 7205
assert parse_duration(" 1h 1m 1s ") == 3661

for wrong in ("", "5", "5x", "1m 1h", "1s 1s", "-1s", "1.5h", "h"):
    try:
        parse_duration(wrong)
    except ValueError:
        pass
    else:
        assert False, wrong
