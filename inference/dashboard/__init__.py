"""The page for people: submit a prompt, watch its answer come, see jobs, queues and workers live."""
