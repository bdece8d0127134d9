"""From a kernel's text to a typed tree."""
