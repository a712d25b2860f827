"""Sources held out of the training part: what valid and test are, where a recipe has no files."""

from __future__ import annotations

import hashlib
import unicodedata
from dataclasses import dataclass

from headway.data.tables import PartName
from headway.settings.data import DataSettings

HELD: dict[PartName, str] = {"valid": "held out for valid", "test": "held out for test"}
_ALL = 2**64


@dataclass(frozen=True)
class HeldOut:
    """Which part a pair belongs to: a function of its source and of nothing else.

    About `share` of the distinct sources are valid's, and as many test's, of those `parts` that
    the recipe does not have itself. With a greater share each of the two has what it had, and more.
    """

    share: float
    parts: tuple[PartName, ...]

    @classmethod
    def of(cls, settings: DataSettings) -> HeldOut | None:
        """As a recipe wants it; None if nothing is held out."""
        missing = tuple(name for name in HELD if getattr(settings, name) is None)
        return cls(settings.held_out, missing) if settings.held_out else None

    def part(self, source: str) -> PartName:
        """The part of the pairs with that source."""
        place, wanted = place_of(source), int(self.share * _ALL)
        # from both ends, so that no other share makes a test pair one of validation
        name: PartName = (
            "valid" if place < wanted else "test" if place >= _ALL - wanted else "train"
        )
        return name if name in self.parts else "train"


def place_of(source: str) -> int:
    """A number below 2^64 that looks drawn by lot; the same on every machine, in every version.

    Sources that differ only in case, in spaces or in how Unicode spells a letter have the same:
    many a model could not tell them apart.
    """
    text = " ".join(unicodedata.normalize("NFC", source).casefold().split())
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")
