"""Values: schema, conditions, queries, forms, answers. No engine, no numerics."""
