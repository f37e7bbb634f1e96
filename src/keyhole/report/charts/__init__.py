"""Charts as SVG: they need no script, follow light and dark, print, and have a table of their numbers behind them."""
