"""What an agent and a model say to each other, and the models of tests."""
