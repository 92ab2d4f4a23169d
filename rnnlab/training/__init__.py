"""Training: hyperparameters, optimisers for each member, the one loop, divergence, early stopping, checkpoints."""
