"""Accepts, remembers and queues inference jobs. Never imports the worker side."""
