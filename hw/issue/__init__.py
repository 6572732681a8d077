"""Instructions on their way into a unit: fetched, assembled, held for tokens, looped over."""
