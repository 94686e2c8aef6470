"""What will be done: a pipeline as stages, which one visitor runs and another explains."""
