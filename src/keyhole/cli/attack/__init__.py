"""`keyhole attack`: on a transcript of questions and answers."""
