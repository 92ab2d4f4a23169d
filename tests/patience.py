"""How long tests wait for other processes."""

PATIENCE = 600.0  # seconds: a busy machine may need many, and only what never comes takes all of them
