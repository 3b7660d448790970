"""`make bench`: holdfast against plain Spark, in one run, as ratios, interleaved, with the spread."""
