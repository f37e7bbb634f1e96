"""The version of the package, for those below its front door."""

__version__ = "0.1.0"
