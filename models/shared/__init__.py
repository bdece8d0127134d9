"""What the families share: checks, files, tables, jobs."""
