"""Tuning: search spaces, samplers that suggest points in batches, and the trials they lead to."""
