"""Commands on a verdict that was written: `keyhole verify`, `review` and `report`."""
