"""What commands share: options, output, endings."""
