"""What was spent and what is left: losses, their composition, the ledger."""
