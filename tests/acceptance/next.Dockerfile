# The next image of `make compose-test`: the same files under another id.
FROM foreask
LABEL compose-test=next
