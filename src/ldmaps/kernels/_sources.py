"""A checksum of the kernels' sources: compiled into every module, and compared when one is loaded.

CMake runs this file by itself, so it imports nothing of the package.
"""

from __future__ import annotations

import os
import sys
import zlib


def checksum(folder: str) -> str | None:
    """Return that of the C++ files in a folder, or None where there are none: in an installed package."""
    names = sorted(name for name in os.listdir(folder) if name.endswith((".cpp", ".h")))
    total = 0
    for name in names:
        with open(os.path.join(folder, name), "rb") as source:
            total = zlib.crc32(name.encode() + b"\0" + source.read(), total)
    return f"{total:08x}" if names else None


if __name__ == "__main__":
    with open(sys.argv[2], "w", encoding="utf-8") as generated:
        generated.write(
            "namespace ldmaps {\nextern const char* const sources_checksum;\n"
            f'const char* const sources_checksum = "{checksum(sys.argv[1])}";\n}}\n'
        )
