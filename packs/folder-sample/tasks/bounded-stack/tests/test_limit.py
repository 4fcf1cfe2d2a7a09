import pytest


@pytest.mark.parametrize("pushes", [0, 3, 4, 10])
def test_length(stack, pushes):
    for n in range(pushes):
        stack.push(n)
    assert len(stack) == min(pushes, 3)


def test_dropped(stack):
    for n in range(5):
        stack.push(n)
    assert stack.gone == [0, 1]


def test_empty():
    with pytest.raises(IndexError):
        BoundedStack(1).pop()
