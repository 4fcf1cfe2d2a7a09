def test_last_in_first_out(stack):
    for n in range(5):
        stack.push(n)
    assert [stack.pop(), stack.pop(), stack.pop()] == [4, 3, 2]
