"""The book: what was asked, answered, published and paid, in one append-only file per population."""

from keyhole.book.book import Book
from keyhole.book.chain import BookEntry, Mark
from keyhole.book.state import EVERYBODY, NOTHING, BookState

__all__ = ["EVERYBODY", "NOTHING", "Book", "BookEntry", "BookState", "Mark"]
