"""What the local stack needs installed: toolchains, interpreters, and a cache of what is built."""
