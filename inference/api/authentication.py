"""Who is calling: a tenant by its API key."""
