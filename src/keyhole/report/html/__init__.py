"""Reports as pages: one self-contained HTML file each, without a script from elsewhere, a font or a picture to load."""
