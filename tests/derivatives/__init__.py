"""Tests of derivatives: traps, refusals, gradients of reductions."""
