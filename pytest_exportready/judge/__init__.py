"""One case from training to verdict."""
