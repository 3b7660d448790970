"""The sensor pipeline: sensors that send late, twice and garbage, and the jobs that bear it."""
