"""How a file is written: its encoding, its layout, and what makes an odd one plain."""
