"""Which internal coordinates are meant by a word, or by a file that lists them, among atoms with names and bonds."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ldmaps.errors import InvalidInputError

#: Atoms of each kind of feature, in the order of a map's features.
KINDS = {"dihedral": 4, "angle": 3, "distance": 2, "contact": 2}
#: More features than that are most often a mistake, and slow.
MOST_FEATURES = 100_000
#: A contact is between atoms at least so many apart in their order.
CONTACT_GAP = 3
#: The atoms of side chains' torsions, from CB on, and the residues that have them; names as IUPAC has them, and others
#: by what protonates or links a residue.
_SIDE_CHAINS = {
    "CB CG CD NE CZ NH1": "ARG",
    "CB CG OD1": "ASN ASP ASH",
    "CB SG": "CYS CYX CYM CYS2",
    "CB CG CD OE1": "GLN GLU GLH",
    "CB CG ND1": "HIS HID HIE HIP HSD HSE HSP",
    "CB CG1 CD1": "ILE",
    "CB CG CD1": "LEU PHE TRP TYR",
    "CB CG CD CE NZ": "LYS LYN",
    "CB CG SD CE": "MET MSE",
    "CB CG CD": "PRO",
    "CB OG": "SER",
    "CB OG1": "THR",
    "CB CG1": "VAL",
}
_SIDE_CHAIN_OF = {residue: chain for chain, residues in _SIDE_CHAINS.items() for residue in residues.split()}
#: Other names of these atoms.
_SAME_ATOM = {"CD1": "CD", "SD": "SE"}


class _Found(NamedTuple):
    """A feature."""

    kind: str
    atoms: tuple[int, ...]
    name: str
    scale: float = math.nan


def chosen_features(atoms: Any, what: str) -> dict[str, Any]:
    """Return the arguments of :class:`~ldmaps.metrics.Features` for words with commas between them, or a file."""
    # Scales are NaN where the usual ones are meant.
    chain = _Chain(atoms)
    found: list[_Found] = []
    if os.path.isfile(what):
        found = list(_listed(chain, what))
    else:
        for word in what.split(","):
            found += _by_word(chain, word.strip())
    # In the order in which a metric has them, each once.
    unique = {(one.kind, one.atoms): one for one in found}
    ordered = sorted(unique.values(), key=lambda one: list(KINDS).index(one.kind))
    if len(ordered) > MOST_FEATURES:
        raise InvalidInputError(
            f"{what} give {len(ordered):,} features of {len(chain.names):,} atoms, but at most {MOST_FEATURES:,} are "
            "allowed; select fewer atoms, or list the features that matter in a file"
        )
    lists = {kind: [one.atoms for one in ordered if one.kind == kind] for kind in KINDS}
    return {
        **{f"{kind}s": np.array(atoms) for kind, atoms in lists.items() if atoms},
        "scales": np.array([one.scale for one in ordered]),
        "names": [one.name for one in ordered],
    }


class _Chain:
    """Atoms, seen as residues and molecules."""

    def __init__(self, atoms: Any) -> None:
        self.names = [name.upper() for name in atoms.names]
        self.labels = list(atoms.labels)
        self.elements = atoms.elements
        self.has_bonds = atoms.bonds is not None and len(atoms.bonds) > 0
        self.neighbours: list[list[int]] = [[] for _ in self.names]
        for left, right in atoms.bonds.tolist() if self.has_bonds else ():
            self.neighbours[left].append(right)
            self.neighbours[right].append(left)

    @cached_property
    def residues(self) -> list[tuple[str, dict[str, int]]]:
        """Label and atoms by name of each residue."""
        keys = [
            label[: -len(name) - 1] if label.upper().endswith("-" + name) else ""
            for label, name in zip(self.labels, self.names, strict=True)
        ]
        groups = itertools.groupby(range(len(keys)), key=keys.__getitem__)
        return [(key, {self.names[atom]: atom for atom in members}) for key, members in groups]

    @cached_property
    def is_light(self) -> NDArray[np.bool_]:
        """Which atoms are hydrogen: by element, or by a name that begins with H where no element is known."""
        if self.elements is not None:
            return np.array([element in ("H", "D") for element in self.elements])
        return np.array([name.lstrip("0123456789").startswith("H") for name in self.names])

    def linked(self) -> Iterator[tuple[str, dict[str, int], str, dict[str, int]]]:
        """Yield pairs of residues with a peptide bond from the first to the second."""
        for (key, here), (following, there) in itertools.pairwise(self.residues):
            carbon, nitrogen = here.get("C"), there.get("N")
            if carbon is None or nitrogen is None:
                continue
            if not self.has_bonds or nitrogen in self.neighbours[carbon]:
                yield key, here, following, there

    def heavy(self) -> NDArray[np.intp]:
        """Return the atoms that are not hydrogen, all if there are no others."""
        heavy = np.flatnonzero(~self.is_light)
        return heavy if len(heavy) else np.arange(len(self.names))

    def paths(self, n_atoms: int, among: Iterable[int]) -> Iterator[tuple[int, ...]]:
        """Yield chains of so many bonded atoms, each once."""
        allowed = set(among)
        for start in sorted(allowed):
            front: list[tuple[int, ...]] = [(start,)]
            for _ in range(n_atoms - 1):
                front = [
                    (*path, after)
                    for path in front
                    for after in self.neighbours[path[-1]]
                    if after in allowed and after not in path
                ]
            yield from (path for path in front if path[0] < path[-1])

    def molecule_of(self) -> NDArray[np.intp]:
        """Return which molecule each atom belongs to."""
        molecule = np.full(len(self.names), -1)
        for root in range(len(molecule)):
            front = [root] if molecule[root] < 0 else []
            while front:
                atom = front.pop()
                molecule[atom] = root
                front += [other for other in self.neighbours[atom] if molecule[other] < 0]
        return molecule

    def found(self, kind: str, atoms: tuple[int, ...], scale: float = math.nan) -> _Found:
        """Return a feature that has no name of its own, called by its atoms."""
        return _Found(kind, atoms, " ".join([kind, *(self.labels[atom] for atom in atoms)]), scale)


def _by_word(chain: _Chain, word: str) -> list[_Found]:
    choose = _WORDS.get(word.lower())
    if choose is None:
        close = get_close_matches(word.lower(), _WORDS, n=1, cutoff=0.5)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise InvalidInputError(
            f"there are no features {word!r}, nor a file of that name; known are {', '.join(_WORDS)}, or a file that "
            f"lists them.{hint}"
        )
    found = list(choose(chain))
    if not found:
        bonds = "" if chain.has_bonds else ", and the topology has no bonds between them"
        raise InvalidInputError(
            f"the {len(chain.names):,} atoms have no {word}{bonds}; select other atoms, give a topology with bonds "
            "(PDB with CONECT, PSF, prmtop), or list features in a file: dihedral ALA2-N ALA2-CA ALA2-C GLY3-N"
        )
    return found


def _dihedrals(chain: _Chain) -> Iterator[_Found]:
    """φ, ψ and ω of residues that are linked; all torsions of other molecules."""
    backbone = []
    for key, here, following, there in chain.linked():
        for name, owner, wanted in (
            ("psi", key, [(here, "N"), (here, "CA"), (here, "C"), (there, "N")]),
            ("omega", following, [(here, "CA"), (here, "C"), (there, "N"), (there, "CA")]),
            ("phi", following, [(here, "C"), (there, "N"), (there, "CA"), (there, "C")]),
        ):
            if all(atom in residue for residue, atom in wanted):
                places = tuple(residue[atom] for residue, atom in wanted)
                backbone.append(_Found("dihedral", places, f"{name} {owner}"))
    yield from backbone
    molecule = chain.molecule_of()
    proteins = {molecule[one.atoms[1]] for one in backbone}
    others = np.flatnonzero(~np.isin(molecule, list(proteins)))
    heavy = others[~chain.is_light[others]]
    torsions = list(chain.paths(4, heavy)) or list(chain.paths(4, others))
    yield from (chain.found("dihedral", path) for path in torsions)


def _chi(chain: _Chain) -> Iterator[_Found]:
    """χ₁ to χ₅ of side chains."""
    for key, atoms in chain.residues:
        residue = key.upper().rstrip("0123456789").rstrip("-")
        names = ["N", "CA", *_SIDE_CHAIN_OF.get(residue, "").split()]
        places = [atoms.get(name, atoms.get(_SAME_ATOM.get(name, ""), -1)) for name in names]
        for number in range(len(places) - 3):
            four = tuple(places[number : number + 4])
            if min(four) >= 0:
                yield _Found("dihedral", four, f"chi{number + 1} {key}")


def _pairs(chain: _Chain, kind: str, gap: int) -> Iterator[_Found]:
    """Pairs of Cα, or of atoms other than hydrogen where there are none."""
    # A residue CA is calcium.
    alphas = [
        atoms["CA"] for key, atoms in chain.residues if "CA" in atoms and key.rstrip("0123456789") != "CA"
    ]
    chosen = alphas if len(alphas) > 1 else chain.heavy().tolist()
    for first, left in enumerate(chosen):
        for right in chosen[first + gap :]:
            yield chain.found(kind, (left, right))


_WORDS: dict[str, Callable[[_Chain], Iterator[_Found]]] = {
    "dihedrals": _dihedrals,
    "chi": _chi,
    "distances": lambda chain: _pairs(chain, "distance", 1),
    "contacts": lambda chain: _pairs(chain, "contact", CONTACT_GAP),
    "angles": lambda chain: (chain.found("angle", path) for path in chain.paths(3, chain.heavy())),
}


def _listed(chain: _Chain, path: str) -> Iterator[_Found]:
    """Read a file with a feature per line; # begins a remark."""
    place: dict[str, int] = {}
    for number, label in enumerate(chain.labels):
        place[label.upper()] = -1 if label.upper() in place else number
    with open(path, encoding="utf-8") as file:
        lines = list(file)
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        kind, scale, where = words[0].lower().removesuffix("s"), math.nan, f"{path}, line {number}"
        if words[-1].lower().startswith("scale="):
            scale = _scale(words.pop(), where)
        if kind not in KINDS or len(words) != 1 + KINDS[kind]:
            raise InvalidInputError(
                f"{where}: a feature is a kind and its atoms ({', '.join(KINDS)}: "
                f"{', '.join(map(str, KINDS.values()))} atoms), perhaps with scale=2, got {line.strip()[:80]!r}"
            )
        atoms = tuple(_atom(word, place, chain, where) for word in words[1:])
        yield chain.found(kind, atoms, scale)


def _atom(word: str, place: dict[str, int], chain: _Chain, where: str) -> int:
    atom = place.get(word.upper())
    if atom is None and word.isdigit() and int(word) < len(chain.labels):
        return int(word)
    if atom is None:
        close = get_close_matches(word.upper(), list(place), n=3)
        hint = f"; similar are {', '.join(close)}" if close else f"; the first is {chain.labels[0]}"
        raise InvalidInputError(
            f"{where}: there is no atom {word}; atoms are called by residue and name, or counted from 0 to "
            f"{len(chain.labels) - 1}{hint}"
        )
    if atom < 0:
        raise InvalidInputError(
            f"{where}: several atoms are called {word}; give their numbers, counted from 0"
        )
    return atom


def _scale(word: str, where: str) -> float:
    try:
        return float(word[6:])
    except ValueError:
        raise InvalidInputError(f"{where}: {word} must be scale= and a positive number") from None


def checked_atoms(kind: str, atoms: NDArray[Any], n_atoms: int) -> NDArray[np.intp]:
    """Return the atoms of features of one kind, or raise."""
    if atoms.dtype.kind not in "iu" or atoms.ndim != 2 or atoms.shape[1] != KINDS[kind]:
        raise InvalidInputError(
            f"{kind}s must be a list of {KINDS[kind]} atom indices each, got {atoms.dtype} values of shape "
            f"{atoms.shape}"
        )
    wrong = atoms[(atoms < 0) | (atoms >= n_atoms)]
    if len(wrong):
        raise InvalidInputError(
            f"{kind}s name atom {wrong[0]}, but frames have {n_atoms} atoms, counted from 0"
        )
    twice = np.flatnonzero((np.diff(np.sort(atoms, axis=1), axis=1) == 0).any(axis=1))
    if len(twice):
        raise InvalidInputError(
            f"{kind} {twice[0]}, {atoms[twice[0]].tolist()}, contains the same atom twice"
        )
    return np.ascontiguousarray(atoms, np.intp)
