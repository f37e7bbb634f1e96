"""What the commands write with `--format json`, as typed structs: docs/json.md has the meaning of every field."""
