# The program of the analysis sandbox. It answers one request after the other. It
# parses texts of rows and runs nothing of them, so that one process can serve all
# rows; no candidate, and nothing of one, ever gets here.


def answer(request):
    request.open()
    operation = request.only(str)
    row = request.value()
    request.end()
    try:
        return {"analyse": analyse, "examine": examine}[operation](row)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return message(text("broken"))  # some errors are the symbol table's, or the examination's


def serve(channel):
    channel.send(text("ready"))
    while True:
        channel.send(answer(Decoder(channel.receive())))


serve(private_channel())
