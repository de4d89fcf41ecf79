"""What a call of a kernel costs before the kernel runs: through our own binding layer, and through nanobind.

    python benchmarks/call_overhead.py               ours alone
    python benchmarks/call_overhead.py --nanobind    both; fetches nanobind from PyPI and compiles it (a minute)

The call is the one that embeds points, with six arrays and a number, for no points: types, layout and sizes of all
arrays are checked, the GIL is released and taken again, and nothing is computed. Numbers mean something on an idle
machine only; each is the fastest of many repetitions.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import sysconfig
import tempfile
import timeit
from importlib import machinery, util
from pathlib import Path
from typing import Any

import numpy as np

from ldmaps import kernels

#: The same arguments for nanobind; it checks types, dimensions and layout, and no sizes.
PEER = """
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
namespace nb = nanobind;

template <class T, int N>
using Array = nb::ndarray<T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;

NB_MODULE(peer, module) {
    module.def("extend", [](Array<double, 2> squared, double rate, Array<const double, 1> weights,
                            Array<const double, 2> coefficients, Array<double, 2> coordinates,
                            Array<std::int64_t, 1> nearest, Array<double, 1> lowest) {
        for (std::size_t i = 0; i < squared.shape(0); ++i) {
            lowest.data()[i] = rate * weights.data()[0] * coefficients.data()[0] + coordinates.data()[0];
            nearest.data()[i] = 0;
        }
    }, nb::call_guard<nb::gil_scoped_release>());
}
"""


def main() -> None:
    """Print the nanoseconds of a call."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nanobind", action="store_true", help="measure the same call through nanobind too")
    wants_peer = parser.parse_args().nanobind
    arguments = (
        np.empty((0, 5)),
        0.5,
        np.ones(5),
        np.ones((2, 5)),
        np.empty((0, 2)),
        np.empty(0, np.int64),
        np.empty(0),
    )
    print(f"ldmaps    {nanoseconds(kernels.extend, arguments):6.0f} ns per call")
    if wants_peer:
        with tempfile.TemporaryDirectory() as folder:
            peer = compiled_peer(Path(folder))
            print(f"nanobind  {nanoseconds(peer.extend, arguments):6.0f} ns per call")


def nanoseconds(function: Any, arguments: tuple[Any, ...], calls: int = 500) -> float:
    """Return the time of a call, the least of many."""
    # Many short repetitions: one of them is not interrupted by other work.
    seconds = timeit.repeat(lambda: function(*arguments), number=calls, repeat=2000)
    nothing = timeit.repeat(lambda: None, number=calls, repeat=2000)
    return (min(seconds) - min(nothing)) / calls * 1e9


def compiled_peer(folder: Path) -> Any:
    """Compile a module with nanobind and return it."""
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), "nanobind"]
    subprocess.run(install, check=True)
    (folder / "peer.cpp").write_text(PEER)
    source, module = folder / "nanobind", folder / f"peer{machinery.EXTENSION_SUFFIXES[0]}"
    includes = [source / "include", source / "ext" / "robin_map" / "include", sysconfig.get_path("include")]
    subprocess.run(
        [
            *("c++", "-std=c++17", "-O3", "-DNDEBUG", "-shared", "-fPIC", "-fvisibility=hidden"),
            *("-fno-strict-aliasing", *(f"-I{include}" for include in includes)),
            *(str(source / "src" / "nb_combined.cpp"), str(folder / "peer.cpp"), "-o", str(module)),
        ],
        check=True,
    )
    spec = util.spec_from_file_location("peer", module)
    assert spec is not None
    assert spec.loader is not None
    peer = util.module_from_spec(spec)
    spec.loader.exec_module(peer)
    return peer


if __name__ == "__main__":
    main()
