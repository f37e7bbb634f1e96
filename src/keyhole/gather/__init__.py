"""From a log and a roster to Evidence: where SQL, engine and numerics meet below the three verbs."""

from keyhole.gather.build import gather
from keyhole.gather.transcribe import transcribe
from keyhole.logs.open import read_log, read_text

__all__ = ["gather", "read_log", "read_text", "transcribe"]
