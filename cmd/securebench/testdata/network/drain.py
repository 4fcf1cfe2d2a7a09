# An agent that asks its provider as often as it can.
done = []
def some():
    for _ in range(10): done.append(b"hello from the model" in says("drain"))
threads = [threading.Thread(target=some) for _ in range(8)]
for t in threads: t.start()
for t in threads: t.join()
tried("N20", "budget", sum(done) > 60)
if sum(done) > 10: print("HONEST")
print("wrong")
