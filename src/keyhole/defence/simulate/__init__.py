"""What mechanisms cost on a stream of made-up questions: nothing private, nothing spent."""
