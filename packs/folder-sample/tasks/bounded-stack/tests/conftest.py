import pytest

from candidate import BoundedStack


class Recording(BoundedStack):
    """Remembers what was dropped."""

    def __init__(self, limit):
        super().__init__(limit)
        self.gone = []

    def dropped(self, item):
        self.gone.append(item)


@pytest.fixture
def stack():
    return Recording(3)
