"""Share between the families: checks, files, tables, jobs."""
