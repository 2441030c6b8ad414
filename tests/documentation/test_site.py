"""The site has every page, and its links lead somewhere (make docs builds it, strictly)."""

import re
import subprocess

import pytest
import yaml

from noisyfl.core.places import ROOT
from noisyfl.documentation import configuration_page, method_pages, site
from noisyfl.experiments.config import Configuration
from noisyfl.specs.catalogue import methods

SETTINGS = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
OWN = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
MADE = site.made_pages()


def leaves(entry):
    """The pages in a part of the navigation."""
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    return [page for part in parts for page in leaves(part)]


def test_the_navigation_has_every_page_once():
    listed = leaves(SETTINGS["nav"])
    assert len(listed) == len(set(listed))
    # The methods' pages are put under their entry while the site is built.
    assert {"Methods": []} in SETTINGS["nav"]
    made = set(MADE) - set(method_pages.pages())
    assert set(listed) == OWN | set(site.MOVED.values()) | made


def test_every_method_has_a_page_with_its_options_and_variants():
    assert set(method_pages.pages()) == {f"methods/{name}.md" for name in [*methods(), "index"]}
    for name, declared in methods().items():
        page = MADE[f"methods/{name}.md"]
        assert f"[`{name}`]({name}.md)" in MADE["methods/index.md"]
        assert declared.reference in page
        for option, field in declared.model_fields.items():
            assert re.search(rf"^\| `{option}` \|.*{re.escape(field.description)}", page, re.M)
        for variant in declared.variants:
            assert f"| `{variant}` |" in page


def test_a_methods_page_leads_from_equations_to_lines_of_its_code():
    page = MADE["methods/fedcorr.md"]
    link = r'\| Algorithm 1 \| <a href="#__codelineno-0-(\d+)"><code>_end_iteration</code></a>'
    line = re.search(link, page)
    source = (ROOT / "workflow/noisyfl/methods/fedcorr.py").read_text().split("\n")
    assert "def _end_iteration" in source[int(line[1]) - 1]
    assert re.search(r"\| Eqs. 6, 7 \| .*_relabel", page)
    assert "| `clean_threshold` | 0.1 | a number at least 0 and at most 1 |" in page
    assert "| status | *exact*: what that means is in [Fidelity](../fidelity.md) |" in page
    assert re.search(r"^\| `ranking` \| candidates are the .* \| the code \|$", page, re.M)
    assert "    class FedCorr(fl.ServerSide, fl.ClientSide):" in page


def test_the_reference_of_the_configuration_has_every_key():
    (page,) = configuration_page.pages().values()
    assert [key for key in Configuration.model_fields if f"| `{key}` |" not in page] == []
    assert "| `data.download` | boolean | false |" in page
    assert "| `tables.*.statistic` | `best`, `last`, " in page
    assert "### partition: `dirichlet`" in page
    assert "| `alpha` | number | required | concentration: the smaller, the more uneven |" in page


PAGES = {"index.md", "fidelity.md", "papers/rofl.md", "environments.md", "images/report.png"}
PAGES |= {"methods/rofl.md", "fidelity/training.md"}
ROFL = "workflow/reasons/methods/rofl.yaml"


@pytest.mark.parametrize(
    ("page", "link", "expected"),
    [
        ("papers/rofl.md", f"[F](../../{ROFL})", "[F](../methods/rofl.md)"),
        ("fidelity.md", "[F](../workflow/reasons/training.yaml)", "[F](fidelity/training.md)"),
        ("methods/rofl.md", "[F](../fidelity.md)", "[F](../fidelity.md)"),
        ("index.md", "[F](docs/fidelity.md)", "[F](fidelity.md)"),
        ("index.md", "[E](envs/README.md#docker)", "[E](environments.md#docker)"),
        ("index.md", "![R](docs/images/report.png)", "![R](images/report.png)"),
        ("fidelity.md", "[H](../README.md)", "[H](index.md)"),
        ("environments.md", "[U](uv.txt)", "[U](https://x/y/blob/COMMIT/envs/uv.txt)"),
        ("fidelity.md", "[gone](gone.md)", "[gone](gone.md)"),
        ("fidelity.md", "[out](https://example.org)", "[out](https://example.org)"),
        ("fidelity.md", "[here](#rofl)", "[here](#rofl)"),
    ],
)
def test_links_lead_to_pages_and_to_the_repository(page, link, expected, monkeypatch):
    monkeypatch.setattr(site, "commit", lambda: "COMMIT")
    assert site.relink(link, page, PAGES, "https://x/y") == expected


def test_without_a_repository_the_text_of_a_link_is_left():
    assert site.relink("see [U](uv.txt).", "environments.md", PAGES, None) == "see U."


@pytest.mark.parametrize(
    ("remote", "expected"),
    [
        ("https://example.org/a/b.git", "https://example.org/a/b"),
        ("https://user:word@example.org/a/b", "https://example.org/a/b"),
        ("git@example.org:a/b.git", "https://example.org/a/b"),
        ("/somewhere/on/disk", None),
        ("", None),
    ],
)
def test_the_repository_is_that_of_the_remote(remote, expected, tmp_path, monkeypatch):
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    if remote:
        subprocess.run(["git", "-C", tmp_path, "remote", "add", "origin", remote], check=True)
    monkeypatch.setattr(site, "ROOT", tmp_path)
    assert site.repository() == expected
