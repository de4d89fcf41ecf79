"""Files of the library's own container, changed and signed anew."""

from __future__ import annotations

from ldmaps.archive import read_archive, write_archive


def edit_archive(path, *, header=(), arrays=()):
    """Change entries of the header and arrays (None removes one), and sign the file anew."""
    entries, members = read_archive(path)
    entries |= dict(header)
    members |= dict(arrays)
    write_archive(path, entries, {name: array for name, array in members.items() if array is not None})
