"""What aggregate statistics give away about people, and how to answer safely.

>>> import keyhole
>>> callable(keyhole.examine)
True
"""

from keyhole.audit.examine import examine

__version__ = "0.1.0"
__all__ = ["__version__", "examine"]
