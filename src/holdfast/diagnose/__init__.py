"""Stage 3: what was seen -> what it means. Pure; one question a file."""
