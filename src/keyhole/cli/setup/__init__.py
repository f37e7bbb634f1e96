"""Commands that come first: settings for the data, and who may read what of it."""
