"""From a log and a roster to Evidence: where SQL, engine and numerics meet below the three verbs."""

from keyhole.gather.build import gather
from keyhole.gather.log import read_log, read_text
from keyhole.gather.transcribe import transcribe

__all__ = ["gather", "read_log", "read_text", "transcribe"]
