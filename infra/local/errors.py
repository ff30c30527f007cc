"""What can stop the local stack, in words for the person at the terminal."""

from __future__ import annotations


class StackError(Exception):
    """The stack cannot start or answer; the text is one clear line that names what to do."""
