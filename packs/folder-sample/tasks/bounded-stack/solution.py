class BoundedStack:
    def __init__(self, limit):
        self.limit, self.items = limit, []

    def dropped(self, item):
        pass

    def push(self, item):
        if len(self.items) == self.limit:
            self.dropped(self.items.pop(0))
        self.items.append(item)

    def pop(self):
        return self.items.pop()

    def __len__(self):
        return len(self.items)
