"""System checks: what would make a process of Sluice fail later fails at its start."""
