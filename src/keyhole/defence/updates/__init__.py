"""Database updates: how a hypothesis learns from one answer."""
