"""The live page: a map in a browser, with a stream that moves over it."""
