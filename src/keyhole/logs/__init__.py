"""Any log to lines: SQL statements, transcripts, query histories of other systems."""
