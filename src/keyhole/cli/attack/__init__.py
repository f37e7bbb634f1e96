"""`keyhole attack`: on a transcript, or on a target that says only yes or no."""
