"""Statistical methods written against the public names of `portable`; one folder a method, none imports
another."""
