"""MkDocs' hooks: pages that are generated while the site is built, and links that leave it.

Pages are written for a reader of the repository, so a link may lead to any of its files. In the
site, a link to a page leads to that page of the site, a link to a file from which a page is
generated to this page, and a link to another file to the repository, at the commit that the site is
built from. If no repository is known, in a clone without a remote, only the link's text is left.
"""

from __future__ import annotations

import os
import posixpath
import re
import subprocess
from typing import Any

import configuration_page
import method_pages
import subject_pages
from noisyfl.core.places import ROOT
from noisyfl.pages.reasons import method_reasons, subjects

MOVED = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "envs/README.md": "environments.md",
}
"""Pages that lie outside of ``docs/``, by their names in the site."""

REFERENCE = {
    "experiments/config.py": "",
    "experiments/experiment.py": "",
    "simulation/schedule.py": "#schedule",
    "data/partitioning": "#partition",
    "data/noise": "#label_noise",
    "data/noise/noise_level.py": "#noise_level",
    "models": "#model",
    "data/datasets/own_images.py": "#images",
    "data/datasets/own_vectors.py": "#vectors",
}
"""By what declares it in the package, the part of the reference of the configuration."""

SHOWN = {
    f"workflow/noisyfl/{path}": f"configuration-reference.md{part}"
    for path, part in REFERENCE.items()
}
SHOWN |= {"workflow/noisyfl/methods": "methods/index.md"}
SHOWN |= {
    f"workflow/reasons/methods/{name}.yaml": f"methods/{name}.md" for name in method_reasons()
}
SHOWN |= {f"workflow/reasons/{name}.yaml": f"fidelity/{name}.md" for name in subjects()}
"""The page that is generated from a file or folder, by its path."""

LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!\w+:|#)([^)\s#]+)(#[^)\s]*)?\)")
"""A link within the repository: its text, the file and the place in it."""


def generated_pages() -> dict[str, str]:
    """The pages that are not read from a file, by name in the site."""
    return {**method_pages.pages(), **subject_pages.pages(), **configuration_page.pages()}


def on_config(config: Any) -> Any:
    """Set the repository's address, and list each method's page in the navigation."""
    config.repo_url, config.edit_uri = repository(), None
    for entry in config.nav:
        if "Methods" in entry:
            entry["Methods"] = list(method_pages.pages())
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that do not lie in ``docs/``."""
    from mkdocs.structure.files import File

    moved = {name: (ROOT / path).read_text() for path, name in MOVED.items()}
    for name, text in {**moved, **generated_pages()}.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Let every link lead to a page of the site or to the repository."""
    return relink(markdown, page.file.src_uri, set(files.src_uris), config.repo_url)


def relink(markdown: str, name: str, pages: set[str], repository: str | None) -> str:
    """A page with its links adapted to the site; a link that leads nowhere stays as it is.

    MkDocs reports such links.

    Args:
        repository: the repository's address, or None.
    """
    sites = {page: path for path, page in MOVED.items()}
    source = posixpath.dirname(sites.get(name, f"docs/{name}"))

    def link(found: re.Match) -> str:
        text, target, place = found[1], found[2], found[3] or ""
        path = posixpath.normpath(posixpath.join(source, target))
        inside = {**MOVED, **SHOWN}.get(path, path.removeprefix("docs/"))
        inside, _, part = inside.partition("#")
        if inside in pages and (inside != path or path.startswith("docs/")):
            place = f"#{part}" if part else place
            return f"[{text}]({posixpath.relpath(inside, posixpath.dirname(name) or '.')}{place})"
        if not (ROOT / path).exists():
            return found[0]
        return f"[{text}]({repository}/blob/{commit()}/{path}{place})" if repository else text

    return LINK.sub(link, markdown)


def repository() -> str | None:
    """The address of the repository: that of CI, or of the remote ``origin``; None without one."""
    if "GITHUB_REPOSITORY" in os.environ:
        return f"{os.environ['GITHUB_SERVER_URL']}/{os.environ['GITHUB_REPOSITORY']}"
    remote = _git("remote", "get-url", "origin")
    known = re.fullmatch(
        r"(?:https://(?:[^@/]*@)?|git@|ssh://git@)([\w.-]+)[:/](.+?)(\.git)?", remote
    )
    return f"https://{known[1]}/{known[2]}" if known else None


def commit() -> str:
    """The commit that the site is built from; ``main`` where that is not known."""
    return _git("rev-parse", "HEAD") or "main"


def _git(*arguments: str) -> str:
    """What git prints; an empty string if it fails."""
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""
