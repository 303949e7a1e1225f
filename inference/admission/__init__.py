"""Whether work is taken: limits checked and room reserved in one step, or refused with what to do about it."""
