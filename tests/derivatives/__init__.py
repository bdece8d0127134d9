"""Derivatives: traps, refusals, gradients of reductions."""
