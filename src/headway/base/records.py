"""Records that a run writes one after another, and reads again after a kill."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

from headway.base.errors import UserError
from headway.base.files import explain_os_errors, write_atomic


class Records:
    """An append-only file of JSON records, one a line (JSONL)."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, record: dict[str, Any]) -> None:
        """Add one record; what a kill or a full disk left of a line before it is cut off.

        Numbers that are not finite are written NaN and Infinity, as Python's json has them: a
        run that diverges must still be able to say so.
        """
        line = (json.dumps(record, ensure_ascii=False) + "\n").encode("utf-8")
        with explain_os_errors(self.path), open(self.path, "ab", buffering=0) as file:
            end = self._whole_bytes()
            file.truncate(end)
            if file.write(line) != len(line):
                file.truncate(end)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _whole_bytes(self) -> int:
        """Bytes up to the end of the last whole line."""
        with open(self.path, "rb") as file:
            end = file.seek(0, os.SEEK_END)
            while end:
                start = max(0, end - 4096)
                file.seek(start)
                cut = file.read(end - start).rfind(b"\n")
                if cut >= 0:
                    return start + cut + 1
                end = start
        return 0

    def read(self) -> list[dict[str, Any]]:
        """All records; a last line that a kill cut short is left out.

        Raises UserError naming the line that is not a record.
        """
        if not self.path.exists():
            return []
        records = []
        for number, line in enumerate(self.path.read_bytes().split(b"\n")[:-1], start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except (RecursionError, ValueError):
                record = None
            if not isinstance(record, dict):
                where = f"{self.path}:{number}"
                raise UserError("not a record", where=where, todo="delete that line")
            records.append(record)
        return records

    def keep(self, wanted: list[dict[str, Any]]) -> None:
        """Replace the file's content by these records."""
        text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in wanted)
        write_atomic(self.path, text)
