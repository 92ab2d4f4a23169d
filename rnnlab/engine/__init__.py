"""Networks that run: plans, models, the plain reference interpreter and the fast paths."""
