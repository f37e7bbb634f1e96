"""Spark: a session here, on a cluster, or behind Spark Connect; rows come as Arrow."""
