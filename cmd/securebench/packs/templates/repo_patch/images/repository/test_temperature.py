from temperature import fahrenheit


def test_freezing_point():
    assert fahrenheit(0) == 32
