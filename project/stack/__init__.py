"""The whole of Sluice on one machine, as `manage.py up` runs it: parts, their start, restarts and stop."""
