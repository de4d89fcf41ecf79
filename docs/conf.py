"""How the site is built: ``make docs``."""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import ldmaps

HERE = Path(__file__).parent

project = "ldmaps"
author = "The ldmaps developers"
copyright = "The ldmaps developers"
release = version = ldmaps.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx-mathjax-offline",  # pages are read without a network, too
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "sphinx_copybutton",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
templates_path = ["_templates"]
exclude_patterns = ["_build", "gallery", "README.md"]
suppress_warnings = ["config.cache"]  # sphinx-gallery's settings hold functions
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
language = "en"
highlight_language = "none"  # a block without a language is a command or its output

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc sections say the types
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
toc_object_entries = False

html_theme = "pydata_sphinx_theme"
html_title = "ldmaps"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "header_links_before_dropdown": 6,
}
html_sidebars = {
    "index": [],
    "tutorial/*": [],
}  # one shows all that is below it, the other has nothing below it
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

linkcheck_ignore = [r"http://localhost.*", r"http://127\.0\.0\.1.*"]

sphinx_gallery_conf = {
    "examples_dirs": ["gallery/tutorial", "gallery/understand", "gallery/examples"],
    "gallery_dirs": ["tutorial", "understand", "examples"],
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "abort_on_example_error": True,
    "matplotlib_animations": False,
    "write_computation_times": False,
}


def stand_in_for_torch() -> None:
    """Let names of ldmaps.torch be documented without torch; Sphinx's mocks are not classes, which scipy needs."""
    if find_spec("torch") is not None:
        return
    torch, nn = ModuleType("torch"), ModuleType("torch.nn")
    dtype = type("dtype", (), {"__repr__": lambda self: "torch.float64"})
    vars(nn)["Module"] = type("Module", (), {})
    vars(torch).update(nn=nn, Tensor=type("Tensor", (), {}), dtype=dtype, float64=dtype())
    sys.modules.update({"torch": torch, "torch.nn": nn})


stand_in_for_torch()

NAME = re.compile(r"`([A-Za-z_]\w*)`")


def public_names() -> dict[str, list[str]]:
    """Return the public names of each package, as docs/reference/api.md lists them."""
    names: dict[str, list[str]] = {}
    package = ""
    for line in (HERE / "reference" / "api.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## `"):
            package = line.split("`")[1]
            names[package] = []
        elif package and line.startswith("| `"):
            names[package] += NAME.findall(line.split("|")[1])
    return names


def write_reference() -> None:
    """Write a page for each package; autosummary makes one for each name."""
    folder = HERE / "api"
    folder.mkdir(exist_ok=True)
    for package, names in public_names().items():
        lines = [package, "=" * len(package), "", f".. automodule:: {package}", "   :no-members:", ""]
        lines += [f".. currentmodule:: {package}", "", ".. autosummary::", "   :toctree: generated", ""]
        lines += [f"   {name}" for name in names]
        page = folder / f"{package}.rst"
        text = "\n".join(lines) + "\n"
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


#: Methods that scikit-learn's metadata routing adds; its own documentation describes them.
ROUTING = re.compile(r"get_metadata_routing|set_\w+_request|set_output")


def skip_routing(app: object, what: str, name: str, obj: object, skip: bool, options: object) -> bool | None:
    """Leave those methods out."""
    return True if ROUTING.fullmatch(name) else None


def widen_gallery(app: object, docname: str, source: list[str]) -> None:
    """Give the pages of the gallery no second sidebar: they are short, and their code is wide."""
    if "/plot_" in docname:
        source[0] = ":html_theme.sidebar_secondary.remove:\n\n" + source[0]


def escape_trailing_underscores(
    app: object, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Keep "of shape (N, n_components_)" from being read as a link."""
    lines[:] = [re.sub(r"(?<![`\w.])(\w+)_(?=[),])", r"\1\\_", line) for line in lines]


def setup(app: object) -> None:
    """Sphinx calls this."""
    app.connect("autodoc-process-docstring", escape_trailing_underscores, priority=100)  # type: ignore[attr-defined]
    app.connect("autodoc-skip-member", skip_routing)  # type: ignore[attr-defined]
    app.connect("source-read", widen_gallery)  # type: ignore[attr-defined]


# Before Sphinx looks for pages.
write_reference()
