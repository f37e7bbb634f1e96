"""`keyhole simulate`: attacks and defences against simulated databases, a file a game."""
