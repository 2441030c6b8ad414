"""The site has every page, the generated ones too, and its links lead somewhere.

``make docs`` builds it, strictly: a dead link, or a page that the navigation lacks, is an error.
"""

import re
import subprocess

import pytest
import yaml

import configuration_page
import hooks
import method_pages
import subject_pages
from noisyfl.core.options import BadInput
from noisyfl.core.places import ROOT
from noisyfl.experiments.config import Configuration
from noisyfl.pages.reasons import subjects
from noisyfl.specs.catalogue import methods
from option_words import shared_option

OWN = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}


def leaves(entry):
    """The pages in a part of the navigation."""
    if isinstance(entry, str):
        return [entry]
    parts = entry.values() if isinstance(entry, dict) else entry
    return [page for part in parts for page in leaves(part)]


@pytest.mark.slow
def test_the_navigation_has_every_page_once():
    navigation = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    listed = leaves(navigation)
    assert len(listed) == len(set(listed))
    # The methods' pages are put under their entry while the site is built.
    assert {"Methods": []} in navigation
    generated = set(hooks.generated_pages()) - set(method_pages.pages())
    assert set(listed) == OWN | set(hooks.MOVED.values()) | generated


@pytest.mark.parametrize("name", methods())
def test_a_methods_page_has_its_options_and_variants(name):
    page, declared = method_pages.page(name), methods()[name]
    assert declared.reference in page
    for option, field in declared.model_fields.items():
        assert re.search(rf"^\| `{option}` \|.*{re.escape(field.description)}", page, re.M)
    for variant in declared.variants:
        assert f"| `{variant}` |" in page


def test_every_method_is_in_one_family_and_in_the_readme():
    listed = [one.name for members in method_pages.families().values() for one in members]
    assert sorted(listed) == list(methods())
    readme = (ROOT / "README.md").read_text()
    assert [name for name in listed if readme.count(f"`{name}`: ") != 1] == []


def test_a_methods_page_leads_from_equations_to_lines_of_its_code():
    page = method_pages.page("fedcorr")
    link = r'\| Algorithm 1 \| <a href="#__codelineno-0-(\d+)"><code>_end_iteration</code></a>'
    line = re.search(link, page)
    source = (ROOT / "workflow/noisyfl/methods/fedcorr.py").read_text().split("\n")
    assert "def _end_iteration" in source[int(line[1]) - 1]


def test_the_reference_of_the_configuration_has_every_key():
    (page,) = configuration_page.pages().values()
    assert [key for key in Configuration.model_fields if f"| `{key}` |" not in page] == []
    for part in ("schedule", "partition", "label_noise", "noise_level", "model", "images"):
        assert f"\n## `{part}`\n" in page


def test_every_subject_has_a_page():
    assert set(subject_pages.pages()) == {f"fidelity/{name}.md" for name in subjects()}


@pytest.mark.parametrize(
    ("names", "components", "expected"),
    [
        (["m"], ["dirichlet"], "no option 'm'"),
        (["clients"], ["dirichlett"], "nothing is called 'dirichlett'"),
        (["min_size", "cap"], ["dirichlet"], "one default"),
    ],
)
def test_a_reason_for_options_that_do_not_exist_or_differ_is_an_error(names, components, expected):
    with pytest.raises(BadInput, match=rf"a\.yaml: .*{expected}"):
        shared_option(names, components, "a.yaml")


PAGES = {"index.md", "fidelity.md", "papers/rofl.md", "environments.md", "images/report.png"}
PAGES |= {"methods/rofl.md", "fidelity/training.md", "configuration-reference.md"}
ROFL = "workflow/reasons/methods/rofl.yaml"
SCHEDULE = "workflow/noisyfl/simulation/schedule.py"


@pytest.mark.parametrize(
    ("page", "link", "expected"),
    [
        ("papers/rofl.md", f"[F](../../{ROFL})", "[F](../methods/rofl.md)"),
        ("fidelity.md", "[F](../workflow/reasons/training.yaml)", "[F](fidelity/training.md)"),
        ("fidelity.md", f"[S](../{SCHEDULE})", "[S](configuration-reference.md#schedule)"),
        ("index.md", "[F](docs/fidelity.md)", "[F](fidelity.md)"),
        ("index.md", "[E](envs/README.md#docker)", "[E](environments.md#docker)"),
        ("index.md", "![R](docs/images/report.png)", "![R](images/report.png)"),
        ("environments.md", "[U](uv.txt)", "[U](https://x/y/blob/COMMIT/envs/uv.txt)"),
        ("fidelity.md", "[gone](gone.md)", "[gone](gone.md)"),
        ("fidelity.md", "[here](#rofl)", "[here](#rofl)"),
    ],
)
def test_links_lead_to_pages_and_to_the_repository(page, link, expected, monkeypatch):
    monkeypatch.setattr(hooks, "commit", lambda: "COMMIT")
    assert hooks.relink(link, page, PAGES, "https://x/y") == expected


def test_the_files_that_generated_pages_come_from_exist():
    assert [path for path in hooks.SHOWN if not (ROOT / path).exists()] == []


def test_without_a_repository_the_text_of_a_link_is_left():
    assert hooks.relink("see [U](uv.txt).", "environments.md", PAGES, None) == "see U."


@pytest.mark.parametrize(
    ("remote", "expected"),
    [
        ("https://user:word@example.org/a/b.git", "https://example.org/a/b"),
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
    monkeypatch.setattr(hooks, "ROOT", tmp_path)
    assert hooks.repository() == expected
