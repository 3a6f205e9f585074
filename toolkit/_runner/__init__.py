"""One run, and the ways to follow it: in place, in an event loop, in the background."""
