"""`keyhole oracle`: what a system gives away that says only yes or no."""
