"""Define the kernel language: sources, words, types and reducers."""
