"""One question, a file of them, or a log that grows: `keyhole ask` and `keyhole watch`."""
