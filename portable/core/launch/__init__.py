"""Launches, copies, plans and graphs."""
