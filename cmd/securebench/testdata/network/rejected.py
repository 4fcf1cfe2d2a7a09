# An agent that brings its provider to reject a request as if the key were wrong,
# for another try.
says("echo rejection")
print("wrong")
