"""Which file is what: every suffix that ldmaps knows, once. Nothing slow is imported: ``--help`` asks, too."""

from __future__ import annotations

from typing import NamedTuple

from ldmaps.errors import InvalidInputError


class Format(NamedTuple):
    """A file format."""

    name: str  # as people call it
    suffixes: tuple[str, ...]
    kind: str  # {"table", "trajectory"}: rows of numbers, or molecular frames
    #: What reads a finished file: "text", "array", "archive", "zarr", "anndata" or "parquet" for tables; "frames"
    #: (mdtraj, a few frames at a time), "models" (a PDB, one model at a time), "mol2", "whole" (mdtraj loads
    #: all of it) or "mdanalysis" (a few frames at a time) for trajectories. None: it can only be streamed
    reader: str | None
    #: What reads it as it comes through a pipe (tables) or grows on disk; None: it must be finished
    decoder: str | None = None
    has_topology: bool = False  # whether a trajectory names its atoms, so that it needs no other file
    written_by: tuple[str, ...] = ()  # commands that write it


FORMATS = (
    Format("CSV", (".csv",), "table", "text", "csv", written_by=("embed", "stream")),
    Format("TSV", (".tsv",), "table", "text", "csv", written_by=("embed", "stream")),
    Format("text", (".txt",), "table", "text", "csv"),
    Format("compressed text", (".csv.gz", ".tsv.gz", ".txt.gz"), "table", "text"),
    Format("NDJSON", (".ndjson", ".jsonl"), "table", None, "ndjson", written_by=("stream",)),
    Format("NPY", (".npy",), "table", "array", "npy", written_by=("embed",)),
    Format("NPZ", (".npz",), "table", "archive"),
    Format("Parquet", (".parquet",), "table", "parquet", written_by=("embed",)),
    Format("Zarr", (".zarr",), "table", "zarr"),
    Format("AnnData", (".h5ad",), "table", "anndata"),
    Format("XTC", (".xtc",), "trajectory", "frames", "xtc", written_by=("frames",)),
    Format("TRR", (".trr",), "trajectory", "frames", "trr", written_by=("frames",)),
    Format("DCD", (".dcd",), "trajectory", "frames", "dcd", written_by=("frames",)),
    Format("HDF5", (".h5", ".hdf5"), "trajectory", "frames", has_topology=True),
    Format("NetCDF", (".nc", ".netcdf", ".ncdf"), "trajectory", "frames"),
    Format("PDB", (".pdb",), "trajectory", "models", has_topology=True, written_by=("frames",)),
    Format("compressed PDB", (".pdb.gz",), "trajectory", "whole", has_topology=True),
    Format("GRO", (".gro",), "trajectory", "whole", has_topology=True),
    Format("PDBx/mmCIF", (".cif", ".mmcif", ".pdbx"), "trajectory", "whole", has_topology=True),
    Format("PDBx/mmCIF", (".cif.gz", ".mmcif.gz", ".pdbx.gz"), "trajectory", "whole", has_topology=True),
    Format("GSD", (".gsd",), "trajectory", "whole", has_topology=True),
    Format("MSMBuilder HDF5", (".lh5",), "trajectory", "whole", has_topology=True),
    Format("TINKER archive", (".arc",), "trajectory", "whole", has_topology=True),
    Format("MOL2", (".mol2",), "trajectory", "mol2", has_topology=True),
    Format("HOOMD XML", (".hoomdxml",), "trajectory", "whole", has_topology=True),
    Format("XYZ", (".xyz", ".xyz.gz"), "trajectory", "whole"),
    Format("LAMMPS dump", (".lammpstrj",), "trajectory", "whole"),
    Format("AMBER ASCII", (".mdcrd", ".crd"), "trajectory", "whole"),
    Format("AMBER restart", (".rst7", ".restrt", ".inpcrd", ".ncrst"), "trajectory", "whole"),
    Format("Desmond", (".dtr", ".stk"), "trajectory", "whole"),
    Format("OpenMM state", (".xml",), "trajectory", "whole"),
    # What mdtraj does not read. Of a compressed file the format within must be text.
    Format("H5MD", (".h5md",), "trajectory", "mdanalysis"),
    Format("TNG", (".tng",), "trajectory", "mdanalysis"),
    Format("TRZ", (".trz",), "trajectory", "mdanalysis"),
    Format("GROMOS", (".trc", ".trc.gz", ".trc.bz2"), "trajectory", "mdanalysis"),
    Format("LAMMPS dump", (".lammpsdump", ".lammpsdump.gz", ".lammpsdump.bz2"), "trajectory", "mdanalysis"),
    Format("NAMD binary", (".coor", ".namdbin"), "trajectory", "mdanalysis"),
    Format("compressed XYZ", (".xyz.bz2",), "trajectory", "mdanalysis"),
    Format("compressed PDB", (".pdb.bz2",), "trajectory", "mdanalysis", has_topology=True),
    Format("compressed GRO", (".gro.gz", ".gro.bz2"), "trajectory", "mdanalysis", has_topology=True),
    Format("DL_POLY", (".history", ".config"), "trajectory", "mdanalysis", has_topology=True),
    Format("GAMESS", (".gms", ".gms.gz", ".gms.bz2"), "trajectory", "mdanalysis", has_topology=True),
    Format("PDBQT", (".pdbqt",), "trajectory", "mdanalysis", has_topology=True),
    Format("PQR", (".pqr",), "trajectory", "mdanalysis", has_topology=True),
)

#: Topologies without coordinates that MDAnalysis reads and mdtraj does not.
_MDANALYSIS_TOPOLOGIES = (".tpr", ".itp", ".top", ".data")

_BY_SUFFIX = {suffix: form for form in FORMATS for suffix in form.suffixes}


def format_of(path: str) -> Format | None:
    """Return the format that a file's name says, or None."""
    lower = path.lower()
    # The longest suffix counts: .pdb.gz before a .gz.
    return next((_BY_SUFFIX[suffix] for suffix in _LONGEST_FIRST if lower.endswith(suffix)), None)


_LONGEST_FIRST = sorted(_BY_SUFFIX, key=len, reverse=True)


def is_mdanalysis_topology(path: str) -> bool:
    """Say whether MDAnalysis, not mdtraj, reads a file that names atoms."""
    form = format_of(path)
    return path.lower().endswith(_MDANALYSIS_TOPOLOGIES) or (form is not None and form.reader == "mdanalysis")


def known_format(path: str) -> Format:
    """Return the format of a finished file, or raise if its name does not say one."""
    form = format_of(path)
    if form is None:
        raise InvalidInputError(
            f"{path} is neither a table nor a trajectory by its name; tables end in "
            f"{', '.join(suffixes(kind='table'))}, trajectories in .xtc, .dcd, .pdb or another that mdtraj or "
            f"MDAnalysis knows; {conversion(path)}"
        )
    if form.reader is None:
        raise InvalidInputError(
            f"{path} is {form.name}, which ldmaps stream reads and fit and embed do not; write one of "
            f"{', '.join(suffixes(kind=form.kind))}"
        )
    return form


def conversion(path: str) -> str:
    """Return how to make a file readable, as the end of a message."""
    tool = next((tool for suffix, tool in _UNPACKING.items() if path.lower().endswith(suffix)), None)
    if tool is not None:
        return f"unpack it first: {tool} {path}"
    return (
        f"convert it to XTC or DCD with the program that wrote it, or in Python: MDAnalysis.Universe('top.pdb', "
        f"'{path}').atoms.write('run.xtc', frames='all')"
    )


_UNPACKING = {
    ".gz": "gunzip",
    ".bz2": "bunzip2",
    ".xz": "unxz",
    ".zst": "unzstd",
    ".zip": "unzip",
    ".tar": "tar -xf",
}


def suffixes(*, kind: str | None = None, written_by: str | None = None) -> tuple[str, ...]:
    """Return the suffixes of finished files of a kind, or of those that a command writes."""
    return tuple(
        suffix
        for form in FORMATS
        if (written_by in form.written_by if written_by else form.reader and form.kind == kind)
        for suffix in form.suffixes
    )


def table_streams() -> tuple[str, ...]:
    """Return the decoders that read tables as they come: csv, ndjson, npy."""
    return tuple(dict.fromkeys(form.decoder for form in FORMATS if form.kind == "table" and form.decoder))


def output_format(path: str, command: str) -> Format:
    """Return the format that a command writes to a path, "-" being CSV; raise if it can write none of that name."""
    form = FORMATS[0] if path == "-" else format_of(path)
    if form is None or command not in form.written_by:
        stdout = ", or be - for CSV on stdout" if command in FORMATS[0].written_by else ""
        endings = ", ".join(suffixes(written_by=command))
        raise InvalidInputError(f"the output {path} must end in one of {endings}{stdout}")
    return form
