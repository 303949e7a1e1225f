"""`make demo`: the whole stack on real vLLM, with real prompts over all tiers at once."""
