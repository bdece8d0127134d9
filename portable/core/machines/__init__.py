"""The contract of a machine, the host's memory, and a folder a machine."""
