# Frames over two file descriptors: the length in four bytes, then the content.

import os

_read, _write = os.read, os.write  # candidate code may replace them later


class Channel:
    """Reads and writes frames of at most MAX_FRAME bytes."""

    def __init__(self, source, sink):
        self.source, self.sink = source, sink

    def exactly(self, n):
        parts = []
        while n:
            part = _read(self.source, min(n, 1 << 20))
            if not part:
                os._exit(1)  # the other side has gone
            parts.append(part)
            n -= len(part)
        return b"".join(parts)

    def receive(self):
        size = int.from_bytes(self.exactly(4), "big")
        if size > MAX_FRAME:
            raise FrameTooLarge
        return self.exactly(size)

    def send(self, content):
        if len(content) > MAX_FRAME:
            raise FrameTooLarge
        data = len(content).to_bytes(4, "big") + content
        while data:
            data = data[_write(self.sink, data):]


class FrameTooLarge(Exception):
    """A frame is over MAX_FRAME bytes."""


def private_channel():
    """Moves the channel off the standard descriptors, which prints reach."""
    channel = Channel(os.dup(0), os.dup(1))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    return channel
