"""What was proved, in words and files: text, JSON, HTML, frames, SARIF, JUnit, baselines, charts."""
