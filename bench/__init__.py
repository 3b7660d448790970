"""`make bench`: holdfast and plain Spark measured in turn, in one run, as ratios with their spread."""
