"""The fast path for CUDA models: whole sequences of whole populations in one kernel, written from the plan."""
