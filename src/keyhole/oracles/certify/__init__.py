"""What is certain of what was learnt."""
