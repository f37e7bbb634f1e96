"""Commands on published statistics: `keyhole tables` and `keyhole reconstruct`."""
