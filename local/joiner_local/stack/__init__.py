"""The local stack: start, supervise, use and end all of its processes."""
