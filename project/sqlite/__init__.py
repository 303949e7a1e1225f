"""Django's backend for SQLite, but that only `migrate` makes a database: who looks for one leaves none behind."""
