"""Local servers that speak the interfaces of model providers, and refuse what the real ones refuse."""
