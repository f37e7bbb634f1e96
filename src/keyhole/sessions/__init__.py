"""One question on its way from text to answer: read, judged, paid, released, written down."""
