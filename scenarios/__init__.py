"""Stories told end to end on the public API, each with its broken twins."""
