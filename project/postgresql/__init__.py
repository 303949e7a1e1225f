"""Django's PostgreSQL backend on a pool that takes a restart of the server well."""
