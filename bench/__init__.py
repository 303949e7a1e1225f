"""The benchmark suite behind `make bench`: each row with its baseline, measured in the same run."""
