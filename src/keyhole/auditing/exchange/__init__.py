"""Second tables made from the true one: people who are alike for the log swap what is private of them, or move."""

from keyhole.auditing.exchange.people import Exchange
from keyhole.auditing.exchange.records import everybody_open, exchange, free_directions

__all__ = ["Exchange", "everybody_open", "exchange", "free_directions"]
