"""What aggregate statistics give away about people, and how to answer safely.

>>> import keyhole
>>> callable(keyhole.examine)
True
"""

from keyhole.verbs.examine import examine
from keyhole.version import __version__

__all__ = ["__version__", "examine"]
